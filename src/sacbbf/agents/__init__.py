"""What an agent is: its settings, the published agents, their sizes."""
