"""The checks: evidence in, verdicts out. What a check needs to know it finds in the evidence, and nowhere else."""
