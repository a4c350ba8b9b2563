"""A session with the client that `openapi-generator -g python` makes."""

import json
import os
import sys

from headgate_client import (
    ApiClient,
    ApiException,
    Append,
    Configuration,
    DeliveryApi,
    EntriesApi,
    GroupInput,
    GroupsApi,
    Ids,
    ReadGroup,
)

nobody = Configuration(host=sys.argv[1])
me = Configuration(host=sys.argv[1], access_token=os.environ["HEADGATE_TOKEN"])
refused = None
with ApiClient(nobody) as client:
    try:
        EntriesApi(client).append_entry("talk", Append(fields={"text": "zero"}))
    except ApiException as error:
        refused = json.loads(error.body)["code"]
with ApiClient(me) as client:
    entries, groups, delivery = EntriesApi(client), GroupsApi(client), DeliveryApi(client)
    ids = [
        entries.append_entry("talk", Append(fields={"text": text})).id
        for text in ("one", "two", "three")
    ]
    group = groups.create_group("talk", "readers", group_input=GroupInput(start="0"))
    wanted = ReadGroup(limit=2)
    read = delivery.read_group("talk", "readers", consumer="me", read_group=wanted)
    acked = delivery.ack_entries("talk", "readers", Ids(ids=ids[:1]), consumer="me")
    pending = delivery.list_pending("talk", "readers", consumer="me")
    problem = None
    try:
        delivery.read_group("talk", "nobody", consumer="me", read_group=wanted)
    except ApiException as error:
        problem = json.loads(error.body)["code"]

print(
    json.dumps(
        {
            "ids": ids,
            "lag": group.lag,
            "read": [[entry.id, entry.fields["text"]] for entry in read.entries],
            "outcomes": [result.outcome for result in acked.results],
            "pending": [[entry.id, entry.consumer] for entry in pending.pending],
            "problem": problem,
            "refused": refused,
        }
    )
)
