"""The controller of one member cluster: tells what the cluster exports, makes objects of what it imports."""
