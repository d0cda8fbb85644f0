"""gNMI-style shapes, each in its smallest form."""

from __future__ import annotations

import ast
import base64
import json

import pytest
from support.gnmi import RECEIVED, read

from fabricmon.formats.gnmi import gnmi, gnmi_path, gnmic
from fabricmon.formats.gnmi.gnmi_path import Element
from fabricmon.formats.system import sonic

T0 = 1_764_460_800_000_000_000
IN = "/interfaces/interface/state/counters/in-octets"
PATH = "interfaces/interface[name=e1]/state/counters"
ELEMS = [
    {"name": "openconfig-interfaces:interfaces"},
    {"name": "interface", "key": {"name": "e1"}},
    {"name": "state"},
    {"name": "counters"},
]


def embedded(value: object) -> str:
    """JSON as protojson carries it."""
    return base64.b64encode(json.dumps(value).encode()).decode()


PROTOTEXT = """update: {
  timestamp: 1764460800000000000
  prefix: { target: "leaf9" elem: { name: "interfaces" } }
  update: {
    path: { elem: { name: "interface" key: { key: "name" value: "e1" } }
            elem: { name: "state" } elem: { name: "counters" } elem: { name: "in-octets" } }
    val: { uint_val: 5 }
  }
}
"""
OLD_PROTOTEXT = """== getRequest:
path: <
  elem: <
    name: "COUNTERS"
  >
>
encoding: JSON_IETF

== getResponse:
notification: <
  timestamp: 1764460800000000000
  prefix: <
    target: "COUNTERS_DB"
  >
  update: <
    path: <
      elem: < name: "COUNTERS" >
      elem: < name: "e1" >
    >
    val: <
      json_ietf_val: "{\\"SAI_PORT_STAT_IF_IN_OCTETS\\":\\"5\\"}"
    >
  >
>
"""
PYGNMI = {
    "update": {"update": [{"path": f"{PATH}/in-octets", "val": 5}], "timestamp": T0, "prefix": None}
}
SHAPES = {
    "event": json.dumps(
        [{"name": "s", "timestamp": T0, "tags": {"interface_name": "e1"}, "values": {IN: 5}}]
    ),
    "json": json.dumps(
        {"timestamp": T0, "prefix": PATH, "updates": [{"Path": "in-octets", "values": {"x": 5}}]}
    ),
    "get": json.dumps(
        [{"timestamp": T0, "updates": [{"Path": PATH, "values": {PATH: {"in-octets": "5"}}}]}],
        indent=2,
    ),
    "protojson": json.dumps(
        {
            "update": {
                "timestamp": str(T0),
                "prefix": {"elem": ELEMS},
                "update": [
                    {"path": {"elem": [{"name": "in-octets"}]}, "val": {"uintVal": "5"}},
                ],
            }
        }
    ),
    "protojson_json": json.dumps(
        {
            "update": {
                "timestamp": str(T0),
                "update": [
                    {
                        "path": {"elem": ELEMS[:1]},
                        "val": {
                            "jsonIetfVal": embedded(
                                {
                                    "interface": [
                                        {"name": "e1", "state": {"counters": {"oc:in-octets": "5"}}}
                                    ]
                                }
                            )
                        },
                    }
                ],
            }
        }
    ),
    "telegraf_json": json.dumps(
        {
            "name": "ifcounters",
            "tags": {"name": "e1", "path": "/interfaces/interface/state/counters"},
            "fields": {"in_octets": 5},
            "timestamp": T0 // 10**9,
        }
    ),
    "influx": (
        f'ifcounters,name=e1,path=/interfaces/interface/state/counters in_octets=5u,x="a b" {T0}'
    ),
    "pygnmi_json": json.dumps(PYGNMI),
    "pygnmi_repr": repr(PYGNMI),
    "flat": f"{PATH}/in-octets: 5\n{PATH}/description: to: spine",
    "prototext": PROTOTEXT,
    "old_prototext": OLD_PROTOTEXT,
    "sonic_dump": json.dumps(
        {
            "COUNTERS_PORT_NAME_MAP": {"e1": "oid:0x1"},
            "COUNTERS:oid:0x1": {"SAI_PORT_STAT_IF_IN_OCTETS": "5"},
        }
    ),
    "redis_dump": json.dumps(
        {
            "COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": {"e1": "oid:0x1"}, "ttl": -1},
            "COUNTERS:oid:0x1": {
                "type": "hash",
                "value": {"SAI_PORT_STAT_IF_IN_OCTETS": "5"},
                "ttl": -1,
            },
        }
    ),
    "sonic_virtual": json.dumps({"e1": {"SAI_PORT_STAT_IF_IN_OCTETS": "5"}}),
    "gnmi_cli": json.dumps(
        {
            "COUNTERS": {
                "e1": {
                    "SAI_PORT_STAT_IF_IN_OCTETS": {
                        "timestamp": "2025-11-30T00:00:00.0Z",
                        "value": "5",
                    }
                }
            }
        },
        indent=2,
    ),
    "goarista": (
        "[2025-11-30T00:00:00Z] /Smash/counters/ethIntf/StrataCounters/current/counter/e1/"
        'statistics/inOctets = {"value":5}'
    ),
    "jtimon": (
        "TAGS: [ /interfaces/interface/@name=e1  device=leaf9 ]\n"
        "FIELDS: [/interfaces/interface/state/counters/in-octets=%!s(float64=5)]"
    ),
    "payload": json.dumps(
        {
            "openconfig-interfaces:interfaces": {
                "interface": [{"name": "e1", "state": {"counters": {"in-octets": "5"}}}]
            }
        }
    ),
}
UNTIMED = {"flat", "sonic_dump", "redis_dump", "sonic_virtual", "jtimon", "payload"}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_says_the_same(shape: str) -> None:
    """Five octets at port e1, whatever wrote it; sniffed by its beginning; no complaint."""
    text = SHAPES[shape].encode()
    found = read(text + b"\n")
    assert found.series("rx_bytes", "e1") == [5]
    assert found.bad == []
    time = RECEIVED if shape in UNTIMED else T0
    assert found.batches[0].time_ns.tolist() == [time]
    assert gnmi.sniff(text)


def test_several_forms_in_one_file() -> None:
    """Records of all shapes one after the other are all read."""
    text = "\n".join(SHAPES.values()) + "\n"
    found = read(text.encode())
    assert found.bad == []
    ports = {
        (device, port)
        for b in found.batches
        for device, port in zip(b.ports.device, b.ports.port, strict=True)
    }
    assert ports == {("dut", "e1"), ("leaf9", "e1")}


def test_the_pygnmi_repr_is_python() -> None:
    """The sample of pygnmi's notation is what Python prints, and not JSON."""
    assert ast.literal_eval(SHAPES["pygnmi_repr"]) == PYGNMI
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(SHAPES["pygnmi_repr"])


def test_devices() -> None:
    """The target names the device, else the source without its port, else who reads."""
    event = {"name": "s", "timestamp": T0, "values": {IN: 1}}
    tags = [
        ({"source": "leaf1:57400"}, "leaf1"),
        ({"source": "[2001:db8::1]:57400"}, "2001:db8::1"),
        ({"source": "10.0.0.1:57400", "target": "leaf2"}, "leaf2"),
        ({"target": "COUNTERS_DB", "source": "leaf3"}, "leaf3"),
        ({}, "dut"),
    ]
    lines = [json.dumps([{**event, "tags": {"interface_name": "e1", **t}}]) for t, _ in tags]
    found = read("\n".join(lines).encode())
    assert [d for b in found.batches for d in b.ports.device] == [name for _, name in tags]


def test_exact_and_rounded_numbers() -> None:
    """Digits and PROTO integers are exact; a bare JSON number above 2^53 is counted as suspect."""
    rows = [
        ("9007199254740993", 0),
        (9007199254740993, 1),
        (2**64 - 1, 1),
        ("18446744073709551615", 0),
    ]
    for written, suspect in rows:
        for indent in (None, 2):
            record = [
                {
                    "name": "s",
                    "timestamp": T0,
                    "tags": {"interface_name": "e"},
                    "values": {IN: written},
                }
            ]
            found = read(json.dumps(record, indent=indent).encode() * 1 + b"\n")
            assert found.series("rx_bytes", "e") == [int(written)]
            assert found.recorder.samples.rounded == suspect


def test_a_list_without_its_key() -> None:
    """The key of an entry may come as a leaf beside the others, if only one entry is spoken of."""

    def notification(*names: str) -> bytes:
        updates = [
            {
                "path": {"elem": [*ELEMS[:1], {"name": "interface"}, {"name": "name"}]},
                "val": {"stringVal": n},
            }
            for n in names
        ]
        counters = [*ELEMS[:1], {"name": "interface"}, *ELEMS[2:], {"name": "in-octets"}]
        updates.append({"path": {"elem": counters}, "val": {"uintVal": "5"}})
        return json.dumps({"update": {"timestamp": str(T0), "update": updates}}).encode()

    assert read(notification("e1")).series("rx_bytes", "e1") == [5]
    ambiguous = read(notification("e1", "e2"))
    assert ambiguous.batches == []
    assert IN in ambiguous.paths.unkeyed


@pytest.mark.parametrize(
    ("written", "time"),
    [(str(T0), T0), (1764460800.5, T0 + 500_000_000), (float(T0), T0), ("", RECEIVED)],
)
def test_times_that_a_processor_made_over(written: object, time: int) -> None:
    """Times as texts and as floats are times; what is none costs its record."""
    event = {"name": "s", "tags": {"interface_name": "e1"}, "values": {IN: 5}}
    for record in ([{**event, "timestamp": written}], {**event, "timestamp": written}):
        found = read(json.dumps(record).encode())
        assert found.batches[0].time_ns.tolist() == [time]
    for broken in (True, "soon", [1], 2**70, 1e300):
        found = read(json.dumps([{**event, "timestamp": broken}]).encode())
        assert found.batches == []
        assert len(found.bad) == 1


def test_deletes_are_counted() -> None:
    """A record that only deletes is no bad record."""
    lines = [
        json.dumps([{"name": "s", "timestamp": T0, "tags": {}, "deletes": ["/a"]}]),
        json.dumps({"timestamp": T0, "deletes": ["a/b"]}),
    ]
    found = read("\n".join(lines).encode())
    assert found.bad == []
    assert found.recorder.deleted == 2


def test_writing_events_and_messages() -> None:
    """What is written in gnmic's shapes is read back."""
    event = gnmic.write_event("s", T0, {"interface_name": "e1", "source": "d:1"}, {IN: 5})
    message = gnmic.write_message("d:1", "s", T0, "", {f"{PATH}/in-octets": "5"})
    for record in ([event], message):
        found = read(json.dumps(record).encode())
        assert found.series("rx_bytes", "e1") == [5]
        assert found.batches[0].ports.device == ("d",)


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("openconfig:/interfaces/interface/state", "/interfaces/interface/state"),
        ("/oc-if:interfaces/oc-if:interface", "/interfaces/interface"),
        ("interfaces/interface[name=a/b:c]/x", "/interfaces/interface/x"),
        ("openconfig-interfaces:/interfaces/x/openconfig-interfaces:y", "/interfaces/x/y"),
    ],
)
def test_plain_paths(path: str, plain: str) -> None:
    """Origin, modules and keys go; the rest stays."""
    assert gnmi_path.plain(path) == plain


def test_keys_of_paths() -> None:
    """Keys keep slashes, colons, brackets and spaces; equal elements keep both keys."""
    elements = gnmi_path.split(r"a/b[k=x\]/y][l=1:2]/b[k=z]")
    assert elements == [
        Element("a", {}),
        Element("b", {"k": "x]/y", "l": "1:2"}),
        Element("b", {"k": "z"}),
    ]
    assert gnmi_path.join(elements) == ("/a/b/b", {"b_k": "x]/y", "b_l": "1:2", "/a/b/b_k": "z"})
    with pytest.raises(ValueError, match="more than"):
        gnmi_path.split("/".join("a" * 100))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("leaf1_counters_db_asic0_1764460800.json", ("leaf1", "asic0", T0)),
        ("leaf-2.20251130T000000Z.json.gz", ("leaf-2", "", T0)),
        ("sonic-db-dump_2025-11-30_00-00-00.json", ("", "", T0)),
        ("counters_db.json", ("", "", 0)),
        ("asic1.json", ("", "asic1", 0)),
        ("leaf1_name_map_asic1.json", ("leaf1", "asic1", 0)),
        ("COUNTERS_QUEUE_NAME_MAP.txt", ("", "", 0)),
    ],
)
def test_names_of_dumps(name: str, found: tuple[str, str, int]) -> None:
    """Device, ASIC and time are taken from a file's name where they are in it."""
    assert tuple(sonic.name_of(name)) == found
