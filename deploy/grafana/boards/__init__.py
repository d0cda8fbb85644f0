"""What each dashboard shows, as data; `generate.py` turns it into Grafana's JSON."""

from __future__ import annotations

from boards import incident, infiniband, itself, jobs, overview, port, roce

DASHBOARDS = (
    overview.BOARD,
    incident.BOARD,
    port.BOARD,
    roce.BOARD,
    infiniband.BOARD,
    jobs.BOARD,
    itself.BOARD,
)
