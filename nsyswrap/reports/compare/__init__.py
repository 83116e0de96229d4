"""What people see of a comparison, and the baselines that they save for one."""
