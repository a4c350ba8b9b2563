"""Structure: JSON that no request here can have is refused before it is looked at in earnest.

Validation says of every part what is wrong with it. Of a body that is wrong a million times over,
nobody wants to know that, and it would cost more than the mistake did.
"""

from typing import Any

from app.problems import GatewayError, pointer_to

MEMBERS_MAX = 1024
"""Members of one object: an entry may have so many fields."""


ITEMS_MAX = 100_000
"""Items of one array: far more than any operation takes."""


def check_members(value: Any, pointer: str = "/body") -> None:
    """Refuse objects with too many members and arrays with too many items, at any depth.

    Raises:
        GatewayError: naming the first.
    """
    if isinstance(value, list):
        if len(value) > ITEMS_MAX:
            text = f"an array has at most {ITEMS_MAX} items, not {len(value)}"
            raise GatewayError("invalid_request", text, pointer=pointer)
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                check_members(item, pointer + pointer_to(index))
    elif isinstance(value, dict):
        if len(value) > MEMBERS_MAX:
            text = f"an object has at most {MEMBERS_MAX} members, not {len(value)}"
            raise GatewayError("invalid_request", text, pointer=pointer)
        for name, item in value.items():
            if isinstance(item, dict | list):
                check_members(item, pointer + pointer_to(name))
