"""The guard and the runner as a service, and the page that shows both."""
