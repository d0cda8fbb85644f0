"""The gNMI protocol's messages (gnmi.proto 0.10), in a descriptor pool of their own.

Another package in the process may bring the same file names with it; in protobuf's default pool the
second one to come fails. Field numbers are those of openconfig/gnmi.
"""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import Any

_ENUMS = {
    "Encoding": ("JSON", "BYTES", "PROTO", "ASCII", "JSON_IETF"),
    "SubscriptionMode": ("TARGET_DEFINED", "ON_CHANGE", "SAMPLE"),
    "ListMode": ("STREAM", "ONCE", "POLL"),
    "DataType": ("ALL", "CONFIG", "STATE", "OPERATIONAL"),
}

# name: type=number; `*` repeats, `?` stands in the message's oneof, `%` maps strings to strings.
_MESSAGES = {
    "Decimal64": "digits:int64=1 precision:uint32=2",
    "ScalarArray": "element*:TypedValue=1",
    "TypedValue": (
        "string_val?:string=1 int_val?:int64=2 uint_val?:uint64=3 bool_val?:bool=4"
        " bytes_val?:bytes=5 float_val?:float=6 decimal_val?:Decimal64=7"
        " leaflist_val?:ScalarArray=8 json_val?:bytes=10 json_ietf_val?:bytes=11"
        " ascii_val?:string=12 proto_bytes?:bytes=13 double_val?:double=14"
    ),
    "PathElem": "name:string=1 key%:string=2",
    "Path": "element*:string=1 origin:string=2 elem*:PathElem=3 target:string=4",
    "Value": "value:bytes=1 type:Encoding=2",
    "Update": "path:Path=1 value:Value=2 val:TypedValue=3 duplicates:uint32=4",
    "Notification": (
        "timestamp:int64=1 prefix:Path=2 update*:Update=4 delete*:Path=5 atomic:bool=6"
    ),
    "ModelData": "name:string=1 organization:string=2 version:string=3",
    "Subscription": (
        "path:Path=1 mode:SubscriptionMode=2 sample_interval:uint64=3"
        " suppress_redundant:bool=4 heartbeat_interval:uint64=5"
    ),
    "SubscriptionList": (
        "prefix:Path=1 subscription*:Subscription=2 mode:ListMode=5 allow_aggregation:bool=6"
        " use_models*:ModelData=7 encoding:Encoding=8 updates_only:bool=9"
    ),
    "Poll": "",
    "SubscribeRequest": "subscribe?:SubscriptionList=1 poll?:Poll=3",
    "SubscribeResponse": "update?:Notification=1 sync_response?:bool=3",
    "CapabilityRequest": "",
    "CapabilityResponse": (
        "supported_models*:ModelData=1 supported_encodings*:Encoding=2 gNMI_version:string=3"
    ),
    "GetRequest": "prefix:Path=1 path*:Path=2 type:DataType=3 encoding:Encoding=5",
    "GetResponse": "notification*:Notification=1",
}
_FIELD = re.compile(r"(\w+)([*?%]?):(\w+)=(\d+)")

SERVICE = "/gnmi.gNMI/"
"""What the methods' names begin with on the wire."""


@cache
def messages() -> Any:
    """Every message class and enum as attributes; built once, at first use.

    Raises `ImportError` where protobuf is not installed (the extra `gnmi`).
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    file = descriptor_pb2.FileDescriptorProto(
        name="fabricmon/gnmi.proto", package="gnmi", syntax="proto3"
    )
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=f"{name}_{value}", number=number)
    for name, fields in _MESSAGES.items():
        _describe(file.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"gnmi.{name}"))
        for name in _MESSAGES
    }
    enums = {
        name: SimpleNamespace(**{value: number for number, value in enumerate(values)})
        for name, values in _ENUMS.items()
    }
    return SimpleNamespace(**classes, **enums, DecodeError=DecodeError)


def _describe(message: Any, fields: str) -> None:
    for name, mark, kind, number in _FIELD.findall(fields):
        field = message.field.add(name=name, number=int(number))
        field.label = field.LABEL_REPEATED if mark in "*%" and mark else field.LABEL_OPTIONAL
        if mark == "%":
            _describe_map(message, field)
            continue
        scalar = getattr(field, f"TYPE_{kind.upper()}", None)
        if scalar is None:
            is_enum = kind in _ENUMS
            scalar = field.TYPE_ENUM if is_enum else field.TYPE_MESSAGE
            field.type_name = f".gnmi.{kind}"
        field.type = scalar
        if mark == "?":
            if not message.oneof_decl:
                message.oneof_decl.add(name="value" if message.name == "TypedValue" else "request")
            field.oneof_index = 0


def _describe_map(message: Any, field: Any) -> None:
    """A map is a repeated entry message of key and value."""
    entry = message.nested_type.add(name="KeyEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(
            name=name, number=number, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
        )
    field.type = field.TYPE_MESSAGE
    field.type_name = f".gnmi.{message.name}.KeyEntry"
