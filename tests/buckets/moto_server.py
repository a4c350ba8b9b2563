"""`moto` as a program that puts one object after the other: of two puts of a name one works.

By itself it looks whether a name is taken, and then puts, while another thread may do the same.
"""

from __future__ import annotations

import sys
from threading import Lock

from moto.core.common_types import TYPE_RESPONSE
from moto.s3.responses import S3Response
from moto.server import main

_put_object = S3Response.put_object
_lock = Lock()


def _put_alone(response: S3Response) -> TYPE_RESPONSE:
    with _lock:
        return _put_object(response)


if __name__ == "__main__":
    S3Response.put_object = _put_alone  # type: ignore[assignment, method-assign]
    main(sys.argv[1:])
