"""The supervisor's side: settings and tables in, routes out to the worker processes; it carries no request."""
