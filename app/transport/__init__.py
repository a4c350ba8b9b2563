"""Our changes to uvicorn."""
