"""Diagnosis: findings about what a gateway relies on."""
