"""The client: append to streams, follow them, and process entries, with or without asyncio."""

from headgate.client.automation import Push, Schedule
from headgate.client.bulk import Attempt, Batches, Cursor, Plan, Split, Writer
from headgate.client.channel import Channel, Message, Messages
from headgate.client.client import AsyncClient
from headgate.client.credential import CredentialError, TokenFile
from headgate.client.entries import Claimed, Delivery, Draft, Entry, Gap
from headgate.client.group import Consuming, Group
from headgate.client.groups import Groups
from headgate.client.job import Job
from headgate.client.live import Refused
from headgate.client.problems import (
    AnswerLost,
    HeadgateError,
    Problem,
    UnexpectedAnswer,
    Unreachable,
)
from headgate.client.stream import Following, Page, Stream
from headgate.client.subscription import Closed
from headgate.client.table import Row, RowChange, Table

__all__ = [
    "AnswerLost",
    "AsyncClient",
    "Attempt",
    "Batches",
    "Channel",
    "Claimed",
    "Closed",
    "Consuming",
    "CredentialError",
    "Cursor",
    "Delivery",
    "Draft",
    "Entry",
    "Following",
    "Gap",
    "Group",
    "Groups",
    "HeadgateError",
    "Job",
    "Message",
    "Messages",
    "Page",
    "Plan",
    "Problem",
    "Push",
    "Refused",
    "Row",
    "RowChange",
    "Schedule",
    "Split",
    "Stream",
    "Table",
    "TokenFile",
    "UnexpectedAnswer",
    "Unreachable",
    "Writer",
]
