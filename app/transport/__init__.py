"""What we change about uvicorn."""
