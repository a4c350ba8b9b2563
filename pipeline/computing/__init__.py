"""The computation of jobs, said once for this process and for Spark."""
