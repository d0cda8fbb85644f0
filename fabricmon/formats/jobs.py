"""Which hosts a job runs on: a YAML file, Slurm's text, a Kubernetes pod list, Prometheus labels.

What the text is, is found by looking at it. A record that cannot be read costs that record.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fabricmon.errors import ConfigError, FormatError
from fabricmon.formats.base import BadRecord
from fabricmon.formats.promtext import samples
from fabricmon.model.topology import Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fabricmon.formats.base import Bad

FORMATS = ("yaml", "slurm", "kubernetes", "prometheus")
_MOST_HOSTS = 100_000
_MOST_BYTES = 64 << 20
_FIELD = re.compile(r"(?<![\w/:])[/:]*(\w[\w/:]*)=(\S*)")
_GPUS = re.compile(r"gpu(?::[\w.-]+)?[:=]([0-9]{1,6})\b", re.IGNORECASE)
_RANGE = re.compile(r"(?:^|(?<=,))([^,\[\]]*)(?:\[([^\]]*)\]([^,\[\]]*))?(?:,|$)")
_POD_JOB = (
    "training.kubeflow.org/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/cluster",
    "volcano.sh/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_PROM_JOB = ("job_id", "slurm_job_id", "jobid", "job_name", "label_job_name", "exported_job")
_PROM_HOST = ("node", "host", "hostname", "Hostname", "exported_instance", "instance")


def sniff(text: str) -> str:
    """The format of a map, one of `FORMATS`."""
    head = text.lstrip()[:4096]
    if head.startswith("{") and '"items"' in text[: 1 << 20]:
        return "kubernetes"
    if "JobId=" in head or re.match(r"\s*(JOBID|CLUSTER:)", head):
        return "slurm"
    if head.startswith(("# HELP ", "# TYPE ")) or re.match(r"[a-zA-Z_:][\w:]*\{", head):
        return "prometheus"
    return "yaml"


def read_jobs(
    data: bytes, bad: Bad, *, fmt: str = "auto", gpus_per_host: int = 8, file: str = "<jobs>"
) -> tuple[Job, ...]:
    """The jobs that run, by name. `gpus_per_host` where the source does not say.

    Raises `FormatError` for what is no map at all; `bad` takes single records.
    """
    if len(data) > _MOST_BYTES:
        raise FormatError(f"larger than {_MOST_BYTES >> 20} MiB", file=file)
    text = data.decode("utf-8-sig", "replace")
    readers = {
        "yaml": _yaml,
        "slurm": _slurm,
        "kubernetes": _kubernetes,
        "prometheus": _prometheus,
    }
    hosts: dict[str, dict[str, None]] = {}
    gpus: dict[str, int] = {}
    for name, names, count in readers[sniff(text) if fmt == "auto" else fmt](text, bad, file):
        own = hosts.setdefault(name, {})
        own.update(dict.fromkeys(names))
        if count:
            gpus[name] = max(gpus.get(name, 0), count)
    return tuple(
        Job(name, tuple(own), gpus.get(name, gpus_per_host))
        for name, own in sorted(hosts.items())
        if own
    )


Row = tuple[str, list[str], int]
"""(job, hosts, GPUs per host or 0 unknown)"""


def expand_hosts(text: str, most: int = _MOST_HOSTS) -> list[str]:
    """Slurm's `gpu[001-003,007],login1` as names. Raises `ValueError`, and beyond `most` too."""
    names: list[str] = []
    for prefix, inside, suffix in _RANGE.findall(text.strip()):
        if not prefix and not inside:
            continue
        for part in inside.split(",") if inside else [""]:
            first, dash, last = part.partition("-")
            numbers = [first]
            if dash:
                if not (_NUMBER.fullmatch(first) and _NUMBER.fullmatch(last)):
                    raise ValueError(f"{part[:40]!r} is no range of hosts")
                span = range(int(first), int(last) + 1)
                if len(span) + len(names) > most:
                    raise ValueError(f"more than {_MOST_HOSTS} hosts")
                numbers = [str(number).zfill(len(first)) for number in span]
            names += [f"{prefix}{number}{suffix}" for number in numbers]
    return names


def _yaml(text: str, bad: Bad, file: str) -> Iterator[Row]:
    """`name: [hosts]`, `name: {hosts: [...], gpus_per_host: n}`, or a list with `name` in each."""
    from fabricmon import yamlfile  # noqa: PLC0415 - ruamel is slow to import

    try:
        data = yamlfile.loads(text, file=file).data
    except ConfigError as error:
        raise FormatError(error.message, file=file, line=error.line) from error
    if isinstance(data, dict) and isinstance(data.get("jobs"), list | dict):
        data = data["jobs"]
    if isinstance(data, list):
        data = {str(row.get("name") if isinstance(row, dict) else row): row for row in data}
    if not isinstance(data, dict):
        raise FormatError("jobs are a map from name to hosts", file=file)
    for name, row in data.items():
        try:
            yield _yaml_row(str(name), row)
        except ValueError as error:
            bad(BadRecord(file, 0, f"job {str(name)[:80]!r}: {error}"))


def _yaml_row(name: str, row: object) -> Row:
    hosts = row.get("hosts") if isinstance(row, dict) else row
    if isinstance(hosts, str):
        hosts = [hosts]
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise ValueError("no list of hosts")
    count = row.get("gpus_per_host", 0) if isinstance(row, dict) else 0
    if not isinstance(count, int):
        raise ValueError("gpus_per_host is no number")  # noqa: TRY004 - one error for all of it
    names: list[str] = []
    for host in hosts:
        names += expand_hosts(host, _MOST_HOSTS - len(names))
    return name, names, count


def _slurm(text: str, bad: Bad, file: str) -> Iterator[Row]:
    """`scontrol show job` (blocks or one line each), or a `squeue` table with a node list."""
    if "JobId=" in text:
        yield from _scontrol(text, bad, file)
    else:
        yield from _squeue(text, bad, file)


def _scontrol(text: str, bad: Bad, file: str) -> Iterator[Row]:
    for block in re.split(r"(?=^JobId=)", text, flags=re.MULTILINE):
        fields = dict(_FIELD.findall(block))
        if fields.get("JobState", "RUNNING") != "RUNNING" or "JobId" not in fields:
            continue
        nodes = fields.get("NodeList", "")
        if nodes in {"", "(null)"}:
            continue
        try:
            hosts = expand_hosts(nodes)
        except ValueError as error:
            bad(BadRecord(file, 0, f"job {fields['JobId']}: {error}"))
            continue
        per_node = " ".join(fields.get(key, "") for key in ("TresPerNode", "Gres", "GRES"))
        found = _GPUS.search(per_node)
        name = fields.get("JobName", "")
        yield (
            f"{fields['JobId']}:{name}" if name else fields["JobId"],
            hosts,
            int(found[1]) if found else 0,
        )


def _squeue(text: str, bad: Bad, file: str) -> Iterator[Row]:
    lines = [line for line in text.splitlines() if line.strip()]
    head = lines[0].split() if lines else []
    columns = {name.split("(")[0]: place for place, name in enumerate(head)}
    if "JOBID" not in columns or "NODELIST" not in columns:
        raise FormatError(
            "squeue needs the columns JOBID and NODELIST (-o '%i %j %T %N')", file=file
        )
    state = columns.get("STATE", columns.get("ST"))
    for number, line in enumerate(lines[1:], 2):
        cells = line.split()
        if len(cells) < len(head):
            bad(BadRecord(file, number, "fewer cells than columns"))
            continue
        nodes = cells[columns["NODELIST"]]
        if nodes.startswith("(") or (state is not None and cells[state] not in {"R", "RUNNING"}):
            continue
        try:
            hosts = expand_hosts(nodes)
        except ValueError as error:
            bad(BadRecord(file, number, str(error)))
            continue
        job = cells[columns["JOBID"]]
        name = cells[columns["NAME"]] if "NAME" in columns else ""
        yield f"{job}:{name}" if name else job, hosts, 0


def _kubernetes(text: str, bad: Bad, file: str) -> Iterator[Row]:
    """`kubectl get pods -o json`: running pods by the job their labels name."""
    try:
        items = json.loads(text)["items"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"no pod list: {error}", file=file) from error
    if not isinstance(items, list):
        raise FormatError("no pod list: `items` is no list", file=file)
    for number, pod in enumerate(items):
        try:
            meta, spec = pod["metadata"], pod["spec"]
            labels = meta.get("labels") or {}
            running = pod.get("status", {}).get("phase", "Running") == "Running"
            gpus = sum(_pod_gpus(container) for container in spec.get("containers", ()))
            name = next((labels[key] for key in _POD_JOB if key in labels), "")
            node = spec.get("nodeName")
            if running and name and isinstance(node, str) and node:
                yield f"{meta.get('namespace', 'default')}/{name}", [node], gpus
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            bad(BadRecord(file, number, f"pod cannot be read: {error!r}"))


def _pod_gpus(container: Any) -> int:
    limits = container.get("resources", {}).get("limits", {})
    return sum(int(count) for key, count in limits.items() if key.endswith("/gpu"))


def _prometheus(text: str, bad: Bad, file: str) -> Iterator[Row]:
    """Any series that carries a job label and a host label."""
    for sample in samples(_lines(text), r"[A-Za-z_:]", bad, file):
        job = next((sample.labels[key] for key in _PROM_JOB if sample.labels.get(key)), "")
        host = next((sample.labels[key] for key in _PROM_HOST if sample.labels.get(key)), "")
        if job and host and sample.value:
            yield job, [host.rpartition(":")[0] or host], 0


def _lines(text: str) -> Iterable[str]:
    return (line for line in text.splitlines() if line and not line.startswith("#"))
