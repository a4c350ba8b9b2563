"""The program without Headgate: the same body and answer, typed, with nothing behind."""

from fastapi import FastAPI

from headgate.app.wire.schemas.entries import Append, Appended

app = FastAPI(
    telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
)


@app.post("/v1/streams/{stream}/entries", status_code=201)
async def append_entry(stream: str, entry: Append) -> Appended:
    """Answer as an append does."""
    return Appended(id="1795225468445-0")
