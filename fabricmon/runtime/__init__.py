"""Where the rooms meet: the pipeline of a fabric, and what drives it.

    live      `Daemon` -> `FabricPoller` (collectors behind guards) -> `Pipeline.feed`
    recorded  `offline.drive(source, pipeline)`
    simulated the same, from a simulation

APScheduler lives in `scheduler` only. Everything the pipeline does follows from the items it is
fed, so a recording of them repeats the run.
"""
