"""The catalogue of things that happen to fabricmon itself.

Each is one member: its name is the log event and the `event` label of
`fabricmon_self_events_total`. `Level.DROP` marks loss: something was not delivered or not read.
"""

from __future__ import annotations

from enum import Enum, StrEnum


class Level(StrEnum):
    """How loud an event is in the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Event(Enum):
    """(level, one line of help)."""

    STARTED = (Level.INFO, "the daemon started")
    LISTENING = (Level.INFO, "the web server listens")
    STOPPING = (Level.INFO, "the daemon was asked to stop")
    STOPPED = (Level.INFO, "the daemon stopped")
    CONFIG_RELOADED = (Level.INFO, "the config was reloaded")
    CONFIG_REJECTED = (Level.ERROR, "a reload was refused; the old config stays")

    POLL_FAILED = (Level.WARNING, "a target gave nothing in this poll")
    POLL_PARTIAL = (Level.WARNING, "a poll lost rows, replies or records")
    POLLING_SLOWED = (Level.WARNING, "devices drop management packets; they are asked more slowly")
    POLL_SKIPPED = (Level.DEBUG, "a target is backed off and was not polled")
    TARGET_RECOVERED = (Level.INFO, "a target answers again")
    DISCOVERY_FAILED = (Level.WARNING, "a target could not be asked for the fabric's shape")
    TOPOLOGY_CHANGED = (Level.INFO, "the fabric's shape changed")
    FALLBACK = (Level.WARNING, "a slower way of reading is used, and why")
    MAPPING_CHOSEN = (Level.DEBUG, "a mapping was chosen for a target")

    REPLY_REFUSED = (Level.DEBUG, "a reply was late, double, forged or malformed: it was not used")

    RECORD_SKIPPED = (Level.WARNING, "a record of a dump could not be read")
    VALUE_IGNORED = (Level.DEBUG, "a value is not of the catalogue")
    VALUE_SUSPECT = (Level.WARNING, "values are read, but their source treats them oddly")
    PORTS_REFUSED = (Level.ERROR, "the table of ports is full")
    PORTS_FORGOTTEN = (Level.INFO, "ports that nobody told of for long gave their rows back")
    COUNTER_ANOMALY = (Level.DEBUG, "a counter wrapped, stuck, fell or broke its limits")

    TICK_LATE = (Level.WARNING, "a tick ran late or was skipped")
    CLOCK_STEPPED = (Level.WARNING, "the wall clock stepped; the schedule was re-armed")
    MODEL_FITTED = (Level.INFO, "the forest was fitted and swapped in")
    MODEL_REJECTED = (Level.WARNING, "a new forest failed its canary; the old one stays")

    STATE_RESTORED = (Level.INFO, "a fabric goes on where an earlier run left it")
    STATE_REFUSED = (Level.ERROR, "a state file could not be used: the fabric starts cold")
    STATE_FAILED = (Level.ERROR, "a fabric's state could not be saved")

    INCIDENT_OPENED = (Level.INFO, "an incident opened")
    INCIDENT_CLOSED = (Level.INFO, "an incident closed")

    RECORDING_ROTATED = (Level.INFO, "a new recording file was begun")
    RECORDING_FAILED = (Level.ERROR, "a tick could not be recorded")
    EXPORT_FAILED = (Level.WARNING, "an exporter could not deliver")
    EXPORT_DROPPED = (Level.WARNING, "an exporter dropped data it could not deliver")
    STATE_NOT_KEPT = (Level.ERROR, "what was acknowledged or declared could not be written down")
    SCRAPE_REFUSED = (Level.WARNING, "too many scrapes at once")

    CLUSTER_JOINED = (Level.INFO, "this worker is a member of the cluster")
    CLUSTER_AWAY = (Level.WARNING, "NATS does not answer; polling goes on into the spool")
    CLUSTER_FENCED = (Level.WARNING, "a lease was lost or not renewed in time")
    CLUSTER_REFUSED = (Level.ERROR, "the server or a message of the log is not as it has to be")
    SHARDS_CHANGED = (Level.INFO, "this worker polls other shards than before")
    LEADER_CHANGED = (Level.INFO, "this worker leads a fabric")

    COMPONENT_FAILED = (Level.ERROR, "a component raised an error it should not; it goes on")

    @property
    def level(self) -> Level:
        """How loud."""
        return self.value[0]

    @property
    def help(self) -> str:
        """One line."""
        return self.value[1]

    @property
    def label(self) -> str:
        """The name in logs and labels."""
        return self.name.lower()
