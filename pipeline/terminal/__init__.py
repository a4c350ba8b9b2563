"""Terminal: the flags that a person gives to a job, and the lines that the job says."""
