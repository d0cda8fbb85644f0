"""What incidents take: stalled port time, bytes not sent, GPU time that waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fabricmon.model.topology import PortId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from fabricmon.diagnose.tracking.track import Track
    from fabricmon.diagnose.view import FabricView


_ENDED = 1000
"""Jobs that ended of which the cost is still told."""


class Cost:
    """Books per job since start, and per incident."""

    def __init__(self) -> None:
        """Nothing is lost yet."""
        self.jobs: dict[str, float] = {}
        """Stalled GPU-seconds of each job since start; concurrent incidents count once."""

    def update(self, tracks: Iterable[Track], view: FabricView) -> None:
        """Add this tick to every incident that was claimed at it."""
        worst: dict[str, float] = {}
        for track in tracks:
            if track.incident is None or track.finding is None:
                continue
            rows = self._victim_rows(track, view)
            self._charge_ports(track, rows, view)
            for job, seconds in self._stalled_gpus(rows, view).items():
                books = track.incident.jobs
                books[job] = books.get(job, 0.0) + seconds
                worst[job] = max(worst.get(job, 0.0), seconds)
        for job, seconds in worst.items():
            self.jobs[job] = self.jobs.get(job, 0.0) + seconds
        self._let_go({job.name for job in view.shape.jobs})

    def _let_go(self, running: set[str]) -> None:
        """Forget the jobs that ended longest ago: schedulers name each run anew, for months."""
        ended = [job for job in self.jobs if job not in running]
        for job in ended[: max(len(ended) - _ENDED, 0)]:
            del self.jobs[job]

    @staticmethod
    def _victim_rows(track: Track, view: FabricView) -> NDArray[np.intp]:
        assert track.finding is not None
        named = (PortId(v.device, v.port) for v in track.finding.victims)
        rows = [row for port in named if (row := view.table.row(port)) is not None]
        return np.array(rows, np.intp)

    @staticmethod
    def _charge_ports(track: Track, rows: NDArray[np.intp], view: FabricView) -> None:
        incident = track.incident
        assert incident is not None
        stalled = np.nan_to_num(view.stall_now[rows]) * view.frame.interval_s
        speed = np.nan_to_num(view.table.speed_bps[rows])
        incident.stalled_port_seconds += float(stalled.sum())
        incident.lost_bytes += float((stalled * speed).sum()) / 8

    @staticmethod
    def _stalled_gpus(rows: NDArray[np.intp], view: FabricView) -> dict[str, float]:
        """Largest stall on a job's NIC paths x interval x GPUs: the slowest rank sets the pace."""
        shape = view.shape
        nic = rows[(shape.job[rows] >= 0) & (shape.host_port[rows] | shape.faces_host[rows])]
        stall = np.nan_to_num(view.stall_now[nic])
        out: dict[str, float] = {}
        for number in np.unique(shape.job[nic]):
            job = shape.jobs[number]
            gpus = len(job.hosts) * job.gpus_per_host
            share = float(stall[shape.job[nic] == number].max())
            out[job.name] = min(share, 1.0) * view.frame.interval_s * gpus
        return out
