"""What every service needs and no domain owns: clock, backoff, tasks, HTTP shell, metrics, log. Imports nothing of
`discovery` outside itself."""
