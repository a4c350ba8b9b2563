"""What FastAPI reads of a signature: a part that is new to it is one that we do not run.

`pyproject.toml` caps the versions of what we reach into. mypy tells whoever raises a cap which of
its attributes have moved, and `http/test_as_fastapi.py` whether they mean the same.
"""

import dataclasses

from fastapi.dependencies.models import Dependant

DEPENDANT = """
background_tasks_param_name body_params call concurrency cookie_params dependencies header_params
http_connection_param_name name own_oauth_scopes parent_oauth_scopes path path_params query_params
request_param_name response_param_name scope security_scopes_param_name use_cache
websocket_param_name
"""


def test_fastapi_reads_signatures_into_what_we_compile_and_nothing_else() -> None:
    assert {field.name for field in dataclasses.fields(Dependant)} == {*DEPENDANT.split()}
