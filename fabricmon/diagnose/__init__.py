"""Scores and topology become incidents: cause, victims, kind, verdict, evidence, cost.

past/      what each port shows now and has always shown; onsets, breaks, the pace of jobs
fabric/    the shape as arrays, who waits for whom, parallel ways, the lossless class
view       what a rule may look at
rules/     one kind a file
tracking/  of several claims the best one; claims over time become incidents; what they cost
diagnoser  all of it, once a tick
"""

from fabricmon.diagnose.config import DiagnoseConfig
from fabricmon.diagnose.diagnoser import Diagnoser, Diagnosis
from fabricmon.diagnose.view import FabricView

__all__ = ["DiagnoseConfig", "Diagnoser", "Diagnosis", "FabricView"]
