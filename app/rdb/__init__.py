"""RDB: the format in which Redis and Valkey keep streams in files and in the replies of DUMP."""
