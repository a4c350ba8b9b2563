"""What is safe, and when: files, records, snapshots, recovery."""
