"""What is compiled on the machine that it runs on, for that machine; all of it can be done without."""
