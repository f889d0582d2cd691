"""What units are fed with: vectors, stimuli, matrices of files and frameworks, parts for several passes."""
