"""The simulated fabric as an InfiniBand subnet that unmodified tools read.

    with IbsimAgent(topology) as agent:
        agent.update(batches)                      # counters, states and speeds move
        subprocess.run(["ibsim-run", "perfquery", "-x", "1", "1"], env=agent.environment)

What is served is written from the same mapping file that collectors read, so a round trip proves
the protocol, never the mapping.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fabricmon.formats.infiniband.ibfabric import IbFabric, from_topology
from fabricmon.model.topology import Topology
from fabricmon.simulate.agents.ibsim_image import SubnetImage, node_id
from fabricmon.simulate.agents.ibsim_replies import IMAGE_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fabricmon.model.readings import ReadingBatch

_serial = count()


class IbsimAgent:
    """Serves one subnet to any number of clients, from a process of its own."""

    def __init__(
        self,
        shape: Topology | IbFabric,
        *,
        wide: bool = True,
        groups: Sequence[str] = (),
        seed: int = 0,
        name: str = "",
    ) -> None:
        """`wide`: devices count errors and transmit-wait in 64 bits, as current switches do.

        `groups` are attributes that only some devices have (congestion control, FEC).
        `name` is the private name clients find it by (IBSIM_SOCKNAME).
        """
        self.fabric = from_topology(shape) if isinstance(shape, Topology) else shape
        self.name = name or f"fabricmon-agent-{os.getpid()}-{next(_serial)}"
        self._seed = seed
        self._image = SubnetImage(self.fabric, wide=wide, groups=groups)
        self._bank = 0
        self._process: subprocess.Popen[str] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._map: mmap.mmap | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a client's environment must hold besides `ibsim-run`."""
        nodes = self._image.nodes
        host = next((node for node in nodes if node.kind == "host"), nodes[0])
        return {"IBSIM_SOCKNAME": self.name, "SIM_HOST": node_id(host)}

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Write the image and start the server; returns when it listens."""
        self._scratch = tempfile.TemporaryDirectory(prefix="fabricmon-ibsim-")
        image, plan = Path(self._scratch.name) / "image", Path(self._scratch.name) / "plan.json"
        told = self._image.plan()
        with image.open("w+b") as file:
            file.truncate(IMAGE_HEADER + 2 * told["bank_size"])
            self._map = mmap.mmap(file.fileno(), 0)
        self._publish()
        told |= {"name": self.name, "seed": self._seed, "image": str(image)}
        plan.write_text(json.dumps(told), encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-m", f"{__package__}.ibsim_server", str(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            self.stop()
            raise RuntimeError(f"the InfiniBand agent {self.name} did not start")
        self._tell({"down": self._image.broken()})

    def stop(self) -> None:
        """End the server; safe without `start`, and twice."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.kill()
            process.wait()
            process.stdout.close()
        if self._map is not None:
            self._map.close()
            self._map = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def update(self, batches: Iterable[ReadingBatch]) -> None:
        """Take readings of the simulation; ports and counters it does not know are left alone."""
        for batch in batches:
            self._image.take(batch)
        self._publish()
        self._tell({"down": self._image.broken()})

    def set_wire(self, latency_s: float = 0.0, loss: float = 0.0, timeout_s: float = 0.05) -> None:
        """Every reply comes so late; that share of them is told as timed out instead."""
        self._tell({"wire": [latency_s, loss, timeout_s]})

    def cut(self, guid: int, port: int) -> None:
        """Pull a cable."""
        self._image.pull(guid, port)
        self._rewire()

    def mend(self, guid: int, port: int) -> None:
        """Put it back."""
        self._image.pulled.discard((guid, port))
        self._rewire()

    def silence(self, *guids: int) -> None:
        """These nodes, and no others, do not answer."""
        self._tell({"silent": [self._image.index[guid] for guid in guids]})

    def restart_manager(self, first_lid: int) -> None:
        """Another subnet manager numbers every port anew."""
        self.fabric.give_lids(first_lid)
        self._image.changed()
        self._publish()
        self._tell({"lids": self._image.lids()})

    def rename(self, guid: int, description: str) -> None:
        """Change a node's description."""
        self.fabric.nodes[guid].description = description
        self._image.changed()
        self._publish()

    def clear_counters(self) -> None:
        """Somebody resets every counter of the fabric."""
        self._image.clear_counters()
        self._publish()

    def _rewire(self) -> None:
        self._image.changed()
        self._publish()
        self._tell({"down": self._image.broken()})

    def _publish(self) -> None:
        """Write the bank that is not current, then make it current."""
        if self._map is None:
            return
        bank, data = 1 - self._bank, self._image.bank()
        at = IMAGE_HEADER + bank * len(data)
        self._map[at : at + len(data)] = data
        self._bank = bank
        self._map[0] = bank

    @property
    def received(self) -> int:
        """Datagrams that clients have sent so far."""
        return self._tell({})

    def _tell(self, command: dict[str, Any]) -> int:
        """Have the server obey before going on; how many datagrams it has received."""
        if self._process is None:
            return 0
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline() or 0)
