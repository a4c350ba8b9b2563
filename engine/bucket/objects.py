"""Object bucket: objects of S3, Google Cloud Storage or Azure Blob Storage, below a prefix.

Each store's own variables say how it is reached: `AWS_ACCESS_KEY_ID`, `AWS_REGION`,
`AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME` and so on.

A request that fails is tried again by the library, but for a put that got no answer in time. So a
put may meet the object that its own first try has made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url

from headgate.engine.bucket.bucket import USUAL, BucketError, RequestLimits, StoredObject
from headgate.engine.bucket.directory import ThreadedBucket

SINGLE_BYTES_MAX = 64 * 2**20
"""A larger file is put in parts, which no store refuses for a name that is taken."""

_PART_BYTES = 8 * 2**20
_PARTS_AT_ONCE = 2
_LISTED_AT_ONCE = 1_000
"""As many as a store lists in one answer."""

_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
"""The variables with the address of a store, by the scheme of its URLs."""


_STATUS = re.compile(r"status code: (\d{3}(?: [A-Za-z-]+)*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_OBJECT = re.compile(r"<Code>(?!NoSuchBucket|Container)|\(code: 404\)")
"""Of an answer of 404. Without a code it is no answer of a store."""

_NO_RANGE = re.compile(r"status code: 416|Wanted range starting at")
"""A part begins behind the end: as S3 says it, and as the library finds of an answer of Azure."""


_HTTP_ERROR = re.compile(r"HttpError \{\s+kind: (\w+)")
_HTTP_ERRORS = {
    "Connect": "no connection",
    "Decode": "the answer makes no sense",
    "Interrupted": "the connection broke off",
    "Request": "the connection broke off",
    "Timeout": "no answer in time",
}
_ADDRESS = re.compile(r"\S*(?:://|[?&=])\S*")
_TEXT_MAX = 200


class ObjectBucket(ThreadedBucket):
    def __init__(self, url: str, limits: RequestLimits = USUAL) -> None:
        """Connect at the first request; ValueError if the URL or a variable is wrong."""
        super().__init__()
        self.url = url.rstrip("/")
        try:
            self._store: ObjectStore = from_url(
                self.url,
                client_options={
                    "allow_http": _has_plain_endpoint(url.partition(":")[0]),
                    "connect_timeout": timedelta(seconds=limits.connect_s),
                    "timeout": timedelta(seconds=limits.request_s),
                },
                retry_config={
                    "max_retries": limits.retries_max,
                    "retry_timeout": timedelta(seconds=limits.request_s),
                    "backoff": {"init_backoff": timedelta(seconds=limits.backoff_s)},
                },
            )
        except BaseError as error:
            raise ValueError(_text_of(error)) from None

    def put_new(self, name: str, content: bytes | Path) -> bool:
        """Put an object; false if there is one of that name.

        A file of more than 64 MiB is put in parts after a look whether the name is taken: only one
        writer may have such a name.
        """
        size_bytes = len(content) if isinstance(content, bytes) else content.stat().st_size
        self.counts.put_count += 1
        self.counts.sent_bytes += size_bytes
        try:
            with self._errors():
                if isinstance(content, Path) and size_bytes > SINGLE_BYTES_MAX:
                    return self._put_in_parts(name, content, size_bytes)
                return self._put_at_once(name, content)
        except FileNotFoundError as error:
            raise BucketError(str(error)) from None

    def _put_at_once(self, name: str, content: bytes | Path) -> bool:
        try:
            obstore.put(self._store, name, content, mode="create")
        except AlreadyExistsError as error:
            # S3 says 409 while another put has not ended, which may still fail.
            is_sure = "409 Conflict" not in str(error) or "BlobAlreadyExists" in str(error)
            if is_sure or self._is_there(name):
                return False
            raise BucketError("409 Conflict") from None
        return True

    def _put_in_parts(self, name: str, path: Path, size_bytes: int) -> bool:
        if self._is_there(name):
            return False
        self.counts.put_count += 1 + -(-size_bytes // _PART_BYTES)
        obstore.put(
            self._store,
            name,
            path,
            use_multipart=True,
            chunk_size=_PART_BYTES,
            max_concurrency=_PARTS_AT_ONCE,
        )
        return True

    def _is_there(self, name: str) -> bool:
        self.counts.get_count += 1
        try:
            obstore.head(self._store, name)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes:
        self.counts.get_count += 1
        with self._errors():
            data = obstore.get(self._store, name).bytes().to_bytes()
        self.counts.received_bytes += len(data)
        return data

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        self.counts.get_count += 1
        with self._errors():
            try:  # a range of no bytes cannot be asked for
                part = obstore.get_range(self._store, name, start=offset, length=max(size_bytes, 1))
            except BaseError as error:
                if _NO_RANGE.search(str(error)):
                    return b""
                raise
        data = part.to_bytes()[:size_bytes]
        self.counts.received_bytes += len(data)
        return data

    def objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        stored: list[StoredObject] = []
        self.counts.list_count += 1
        with self._errors():
            listed = obstore.list(
                self._store, prefix, offset=after or None, chunk_size=_LISTED_AT_ONCE
            )
            for chunk in listed:
                stored += (StoredObject(each["path"], each["size"]) for each in chunk)
        self.counts.list_count += len(stored) // _LISTED_AT_ONCE
        return sorted(each for each in stored if each.name > after)  # Azure lists all

    def remove(self, names: Iterable[str]) -> None:
        every = list(names)
        self.counts.removed_count += len(every)
        try:
            with self._errors():
                obstore.delete(self._store, every)
        except FileNotFoundError:  # Google and Azure say so, and leave the others
            for name in every:
                with suppress(FileNotFoundError), self._errors():
                    obstore.delete(self._store, name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise an error of the bucket in place of one of the library, without its addresses."""
        try:
            yield
        except (BaseError, BucketError, FileNotFoundError, ValueError) as error:
            text = _text_of(error)
            if isinstance(error, FileNotFoundError) and _NO_OBJECT.search(str(error)):
                raise FileNotFoundError(text) from None
            self.counts.error_count += 1
            raise BucketError(text) from None


def _has_plain_endpoint(scheme: str) -> bool:
    addresses = {name: os.environ[name] for name in _ENDPOINTS[scheme] if name in os.environ}
    for name, address in addresses.items():
        if not address.startswith(("http://", "https://")):  # the library would panic
            raise ValueError(f"{name} should begin with https:// or http://")
    return any(address.startswith("http://") for address in addresses.values())


def _text_of(error: Exception) -> str:
    """Return a short text: no address, as it may have a signature, and nothing of the answer."""
    text = str(error)
    if status := _STATUS.search(text):
        code = _CODE.search(text)
        return f"{status[1]} ({code[1]})" if code else status[1]
    if kind := _HTTP_ERROR.search(text):
        return _HTTP_ERRORS.get(kind[1], kind[1])
    return _ADDRESS.sub("…", text.partition("\n")[0])[:_TEXT_MAX]
