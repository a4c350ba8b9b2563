"""The backend that keeps the streams in Redis or Valkey servers."""
