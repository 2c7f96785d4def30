import sys

from benchmarks.aot.compile import main

main(sys.argv[1:])
