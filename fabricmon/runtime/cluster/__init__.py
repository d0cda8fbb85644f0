"""Several daemons as one, over NATS JetStream (docs/adr/0011).

lease    who is there, who polls what, who leads: a state machine without I/O
message  one item of a fabric's stream as a message of the log, and back
broker   the log and the keys; with `follower`, which reads the log, the only NATS in here
gate     what is refused, and the books of targets that others poll
outlet   takes the pipeline's place at the poller: what was polled waits here for the `sender`
judge    reads the log and runs the pipeline; the leader's exports
shared   the config that all share
worker   the beat that holds it together
"""

from fabricmon.runtime.cluster.worker import Cluster

__all__ = ["Cluster"]
