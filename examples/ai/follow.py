"""Print an answer of the model while it comes, through our own API and client.

    .venv/bin/python examples/ai/follow.py ID  # the ID stands in the page's address

The path `chat/ID` of Durable Streams is the stream `chat:ID`, and a message is an entry with the
message's fields. The loop ends with the stream. `HEADGATE_URL` says where the gateway is.
"""

import sys

import headgate

with headgate.Client() as hg, hg.stream(f"chat:{sys.argv[1]}").follow(after="0") as entries:
    for entry in entries:
        match entry.fields:
            case {"question": str(question)}:
                print(f"> {question}\n")
            case {"text": str(text)}:
                print(text, end="", flush=True)
            case {"end": str(end)}:
                print(f"\n\n({end})")
