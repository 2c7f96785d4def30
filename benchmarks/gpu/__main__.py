import sys

from benchmarks.gpu.program import main

sys.exit(main())
