"""What `attack.py` attacks with, a file for each kind of attack."""
