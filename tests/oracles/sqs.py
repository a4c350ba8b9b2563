"""A FIFO queue of Amazon SQS, as `moto` implements it, behind the client of AWS."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import boto3

from tests.oracles.queue import VISIBLE_S, Received

DELIVERIES_MAX = 3
ANYBODY = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


class FifoQueue:
    """A FIFO queue: the key of an entry is its `MessageGroupId`."""

    def __init__(self, name: str) -> None:
        """Create the queue; `mock_aws` has to be in force."""
        self._client: Any = boto3.client("sqs", region_name="us-east-1", **ANYBODY)
        self._dead_url = self._create(f"{name}-dead")
        wanted = {"QueueUrl": self._dead_url, "AttributeNames": ["QueueArn"]}
        dead = self._client.get_queue_attributes(**wanted)["Attributes"]["QueueArn"]
        redrive = {"deadLetterTargetArn": dead, "maxReceiveCount": DELIVERIES_MAX}
        self._url = self._create(name, RedrivePolicy=json.dumps(redrive))
        self._receipts: defaultdict[str, list[str]] = defaultdict(list)
        self._dead: list[tuple[str, str]] = []

    def _create(self, name: str, **attributes: str) -> str:
        fixed = {"FifoQueue": "true", "VisibilityTimeout": str(VISIBLE_S)}
        created = self._client.create_queue(
            QueueName=f"{name}.fifo", Attributes={**fixed, **attributes}
        )
        return str(created["QueueUrl"])

    async def send(self, key: str, text: str) -> None:
        self._client.send_message(
            QueueUrl=self._url, MessageBody=text, MessageGroupId=key, MessageDeduplicationId=text
        )

    async def receive(self) -> Received | None:
        received = await self.receive_many(1)
        return received[0] if received else None

    async def receive_many(self, limit: int) -> list[Received]:
        """Return so many entries at most, of one request."""
        return self._received(self._url, limit)

    async def delete(self, text: str, *, delivery: int = -1) -> None:
        receipt = self._receipts[text][delivery]
        self._client.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)

    async def hold_on(self, text: str) -> None:
        await self.retry(text, VISIBLE_S)

    async def retry(self, text: str, delay_s: int) -> None:
        self._client.change_message_visibility(
            QueueUrl=self._url, ReceiptHandle=self._receipts[text][-1], VisibilityTimeout=delay_s
        )

    async def dead_letters(self) -> list[tuple[str, str]]:
        for each in self._received(self._dead_url, 10):
            self._dead.append((each.key, each.text))
            receipt = self._receipts[each.text][-1]
            self._client.delete_message(QueueUrl=self._dead_url, ReceiptHandle=receipt)
        return self._dead

    def _received(self, url: str, limit: int) -> list[Received]:
        answer = self._client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=limit,
            MessageSystemAttributeNames=["MessageGroupId", "ApproximateReceiveCount"],
        )
        received = []
        for message in answer.get("Messages", ()):
            of, text = message["Attributes"], message["Body"]
            self._receipts[text].append(message["ReceiptHandle"])
            count = int(of["ApproximateReceiveCount"])
            received.append(Received(of["MessageGroupId"], text, count))
        return received
