"""A session with the client that `openapi-python-client` makes."""

import json
import os
import sys

from headgate_client import AuthenticatedClient, Client
from headgate_client.api.delivery import ack_entries, list_pending, read_group
from headgate_client.api.entries import append_entry
from headgate_client.api.groups import create_group
from headgate_client.models import Append, FieldMap, GroupInput, Ids, Problem, ReadGroup

client = AuthenticatedClient(base_url=sys.argv[1], token=os.environ["HEADGATE_TOKEN"])
zero = Append(fields=FieldMap.from_dict({"text": "zero"}))
refused = append_entry.sync("talk", client=Client(base_url=sys.argv[1]), body=zero)
assert isinstance(refused, Problem)


def append(text: str) -> str:
    body = Append(fields=FieldMap.from_dict({"text": text}))
    made: str = append_entry.sync("talk", client=client, body=body).id
    return made


ids = [append(text) for text in ("one", "two", "three")]
group = create_group.sync("talk", "readers", client=client, body=GroupInput(start="0"))
wanted = ReadGroup(limit=2)
read = read_group.sync("talk", "readers", client=client, consumer="me", body=wanted)
acked = ack_entries.sync("talk", "readers", client=client, consumer="me", body=Ids(ids=ids[:1]))
pending = list_pending.sync("talk", "readers", client=client, consumer="me")
problem = read_group.sync("talk", "nobody", client=client, consumer="me", body=wanted)
assert isinstance(problem, Problem)

print(
    json.dumps(
        {
            "ids": ids,
            "lag": group.lag,
            "read": [[entry.id, entry.fields["text"]] for entry in read.entries],
            "outcomes": [result.outcome for result in acked.results],
            "pending": [[entry.id, entry.consumer] for entry in pending.pending],
            "problem": problem.code,
            "refused": refused.code,
        }
    )
)
