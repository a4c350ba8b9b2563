"""Terminal: the flags of a job, and the lines that it prints."""
