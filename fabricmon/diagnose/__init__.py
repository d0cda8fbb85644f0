"""Scores and topology become incidents: cause, victims, kind, verdict, evidence, cost.

levels     what each port shows now, and what it has always shown
shape      the fabric's shape as arrays
graph      who waits for whom; where the waiting ends
view       what a rule may look at
rules/     one kind a file
arbiter    of several claims about one trouble, the best one
track, tracker   claims over time become incidents
cost       stalled port time, lost bytes, stalled GPU time
"""

from fabricmon.diagnose.config import DiagnoseConfig
from fabricmon.diagnose.diagnoser import Diagnoser, Diagnosis
from fabricmon.diagnose.view import FabricView

__all__ = ["DiagnoseConfig", "Diagnoser", "Diagnosis", "FabricView"]
