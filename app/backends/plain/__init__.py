"""Plain: streams of Redis or Valkey as they are, without any key or function of a gateway."""
