"""Random episodes with the truth about them: what detectors are tuned and measured on.

    from fabricmon.simulate.campaign import KINDS, episode, healthy_run

    e = episode("incast", seed=3, technology=Technology.ROCE, poll=5.0, paused_time=False)
    for item in e.simulation.items(): ...      # the stream
    e.labels                                   # formats.interchange.Label: kind, causes, victims
    e.quiet_polls                              # healthy polls before anything happens

    day = healthy_run(seed=3, technology=Technology.INFINIBAND, poll=10.0, hours=24)
    day.labels == ()                           # benign changes only

`KINDS[technology]` are the kinds an episode can have. `episode(..., second="slow-receiver")` adds a
second fault at the same time elsewhere. Topology, speeds, jobs, severity and place come from the
seed. Victims are counterfactual: ports held back clearly more than in the twin of the same seed
without that fault. `jobs_seconds` in an episode's notes says how long an iteration takes.
"""

from __future__ import annotations

from fabricmon.simulate.campaign.episodes import KINDS, Episode, episode, healthy_run

__all__ = ["KINDS", "Episode", "episode", "healthy_run"]
