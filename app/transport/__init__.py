"""Our changes of uvicorn."""
