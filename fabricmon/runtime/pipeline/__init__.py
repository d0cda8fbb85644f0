"""One fabric's way from readings to incidents. See `Pipeline`.

pipeline  takes items, gives a snapshot at every tick
stages    the rooms it leads through, and what they remember together
presence  which ports the targets still name
"""

from fabricmon.runtime.pipeline.pipeline import Pipeline
from fabricmon.runtime.pipeline.stages import Stages

__all__ = ["Pipeline", "Stages"]
