"""The kinds of value that a fleet file has beside those of the settings: names of Kubernetes, images, peers.

What is not acceptable raises `NotAllowed`, whose text says what is.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from global_ingress.proxy.settings.values import NotAllowed, network

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL_KEY = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?"
_IMAGE = r"[a-z0-9][-a-z0-9._:/]*[a-z0-9](:[\w][-\w.]{0,127})?(@sha256:[0-9a-f]{64})?"
_QUANTITY = r"[0-9]{1,9}(\.[0-9]{1,3})?(m|k|M|G|Ki|Mi|Gi)?"
_REGION = r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
_PATTERN = r"[-a-z0-9{}]{1,63}"


def _matching(pattern: str, what: str) -> PlainValidator:
    def check(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise NotAllowed(f"must be {what}")
        return value

    return PlainValidator(check)


def _schema(title: str, pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"title": title, "type": "string", "pattern": f"^({pattern})$"})


def _peer(value: object) -> str | dict[str, str]:
    if isinstance(value, str):
        return str(network(value))
    if not isinstance(value, dict) or not value:
        raise NotAllowed("must be a CIDR such as 10.0.0.0/8, or labels of a namespace as a mapping")
    for key, label in value.items():
        right = isinstance(label, str) and re.fullmatch(_LABEL_VALUE, label, re.ASCII)
        if not right or not re.fullmatch(_LABEL_KEY, key, re.ASCII):
            raise NotAllowed("must have labels as Kubernetes has them, texts both")
    return dict(value)


def _annotations(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise NotAllowed("must be a mapping of texts")
    if not all(re.fullmatch(_LABEL_KEY, key, re.ASCII) for key in value):
        raise NotAllowed("must have names as Kubernetes has them")
    return dict(value)


def _port(value: object) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535:
        return value
    if isinstance(value, str) and re.fullmatch(r"[a-z0-9-]{1,15}", value) and re.search(r"[a-z]", value):
        return value
    raise NotAllowed("must be a port's name, or its number from 1 to 65535")


Label = Annotated[str, _matching(_LABEL, "a name in lower case, digits and dashes"), _schema("name", _LABEL)]
Region = Annotated[str, _matching(_REGION, "a region's name such as us-east-2"), _schema("region", _REGION)]
Image = Annotated[
    str, _matching(_IMAGE, "an image such as registry.example.com/global-ingress@sha256:…"), _schema("image", _IMAGE)
]
Quantity = Annotated[
    str, _matching(_QUANTITY, "a quantity such as 500m or 1Gi, in quotes"), _schema("quantity", _QUANTITY)
]
ServicePattern = Annotated[str, _matching(_PATTERN, "a Service's name with {name} in it"), _schema("pattern", _PATTERN)]
PortName = Annotated[str | int, PlainValidator(_port), WithJsonSchema({"title": "port", "type": ["string", "integer"]})]
_texts: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
Peer = Annotated[
    str | dict[str, str],
    PlainValidator(_peer),
    PlainSerializer(lambda value: value, when_used="json"),
    WithJsonSchema({"title": "CIDR or labels of a namespace", "anyOf": [{"type": "string"}, _texts]}),
]
Annotations = Annotated[
    dict[str, str],
    PlainValidator(_annotations),
    PlainSerializer(lambda value: value, when_used="json"),
    WithJsonSchema({"title": "annotations", **_texts}),
]
