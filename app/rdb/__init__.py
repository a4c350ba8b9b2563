"""RDB: the format of streams in files of Redis and Valkey, and in the replies of DUMP."""
