"""A hundred mistakes in command lines: the first line of the answer, and the exit code.

What people type from habit: options of nsys, the words of other tools, files of other kinds, wrong numbers.
"""

from __future__ import annotations

import gzip
import json
import lzma
import shlex
from pathlib import Path

import pytest
from conftest import RunIn
from tiny_export import call, kernel, nvtx, write
from waiting import PATIENCE_S
from warm_cli import WarmCli

OF_NSYS = """\
profile -t cuda,nvtx train.py
  use nsyswrap profile --trace cuda,nvtx train.py
profile -o x -t cuda,nvtx,osrt -f true train.py
  use nsyswrap profile -o x --trace cuda,nvtx,osrt --force train.py
profile -w true train.py
  omit --show-output=true (default here): nsyswrap profile train.py
profile -s none train.py
  omit --sample=none (default here): nsyswrap profile train.py
profile -s cpu train.py
  use nsyswrap profile --nsys-arg=--sample=cpu train.py
profile -x true train.py
  omit --stop-on-exit=true (default here): nsyswrap profile train.py
profile -y 5 train.py
  use nsyswrap profile --delay 5 train.py
profile -d 5 train.py
  use nsyswrap profile --duration 5 train.py
profile -e A=1,B=2 train.py
  use nsyswrap profile --env A=1 --env B=2 train.py
profile -c cudaProfilerApi train.py
  use --capture-range cudaProfilerApi
profile -c nvtx -p step train.py
  use nsyswrap profile --capture-range nvtx:step train.py
profile -p step train.py
  use nsyswrap profile --capture-range nvtx:step train.py
profile -n true train.py
  omit --inherit-environment=true (default here): nsyswrap profile train.py
profile -b dwarf train.py
  use nsyswrap profile --nsys-arg=--backtrace=dwarf train.py
profile --stats=true train.py
  omit --stats=true (default here): nsyswrap profile train.py
profile --stats=false train.py
  use nsyswrap profile --no-stats train.py
profile --sample=none train.py
  omit --sample=none (default here): nsyswrap profile train.py
profile --sample=process-tree train.py
  use nsyswrap profile --nsys-arg=--sample=process-tree train.py
profile --cpuctxsw=none train.py
  omit --cpuctxsw=none (default here): nsyswrap profile train.py
profile --export=sqlite train.py
  omit --export=sqlite (default here): nsyswrap profile train.py
profile --force-overwrite=true train.py
  use nsyswrap profile --force train.py
profile --show-output=true train.py
  omit --show-output=true (default here): nsyswrap profile train.py
profile --cuda-graph-trace=node train.py
  use nsyswrap profile --graphs node train.py
profile --cuda-memory-usage=true train.py
  use nsyswrap profile --memory train.py
profile --cuda-um-gpu-page-faults=true train.py
  use nsyswrap profile --um-faults train.py
profile --capture-range-end=stop train.py
  to pass it to nsys: --nsys-arg=--capture-range-end=stop
profile --gpu-metrics-devices=all train.py
  use nsyswrap profile --gpu-metrics train.py
profile --python-backtrace=cuda train.py
  use nsyswrap profile --python-lines train.py
profile --gpu-metrics-device=0 train.py
  use nsyswrap profile --nsys-arg=--gpu-metrics-device=0 train.py
profile --mpi-impl=openmpi train.py
  use nsyswrap profile --nsys-arg=--mpi-impl=openmpi train.py
profile --cudabacktrace=all train.py
  use nsyswrap profile --nsys-arg=--cudabacktrace=all train.py
profile --pytorch=autograd-nvtx train.py
  use nsyswrap profile --nsys-arg=--pytorch=autograd-nvtx train.py
profile --python-sampling=true train.py
  use nsyswrap profile --nsys-arg=--python-sampling=true train.py
profile --kill=none train.py
  use nsyswrap profile --nsys-arg=--kill=none train.py
profile --wait=primary train.py
  use nsyswrap profile --nsys-arg=--wait=primary train.py
profile --trace-fork-before-exec=true train.py
  use nsyswrap profile --follow-forks train.py
profile --env-var=A=1 train.py
  use nsyswrap profile --env A=1 train.py
profile --nvtx-capture=step train.py
  use nsyswrap profile --capture-range nvtx:step train.py
batch sweep -p n=1,2 -t cuda train.py
  use nsyswrap batch sweep -p n=1,2 --trace cuda train.py
profile nsys profile -t cuda python train.py
  use nsyswrap profile --trace cuda python train.py
nsys profile -t cuda --stats=true python train.py
  omit --stats=true (default here): nsyswrap profile --trace cuda python train.py
nsys stats x.sqlite
  use nsyswrap report x.sqlite
-t cuda train.py
  use nsyswrap profile --trace cuda train.py
--trace cuda train.py
  options follow the command: nsyswrap profile --trace cuda train.py
-o run train.py 3
  options follow the command: nsyswrap profile -o run train.py 3
-o x python3 train.py
  options follow the command: nsyswrap profile -o x python3 train.py
--csv folder train.py
  options follow the command: nsyswrap profile --csv folder train.py
"""
# The words behind the command go with it.
OTHER_WORDS = """\
nsys export x.sqlite --parquet out
  use nsyswrap export x.sqlite --parquet out
nsys profile
  use nsyswrap profile PROGRAM
stats -r gpu_time 'my x.sqlite'
  use nsyswrap report -r gpu_time 'my x.sqlite'
diff x.sqlite y.sqlite
  use nsyswrap compare x.sqlite y.sqlite
diff
  use nsyswrap compare BASE NEW
run -o there ./a.out 3
  use nsyswrap profile -o there ./a.out 3
ncu ./a.out
  use nsyswrap report --ncu
version now
  use nsyswrap --version
-o x x.sqlite
  options follow the command: nsyswrap report -o x x.sqlite
-o test x.sqlite
  options follow the command: nsyswrap report -o test x.sqlite
-o folder ./a.out 3
  options follow the command: nsyswrap profile -o folder ./a.out 3
--force ./a.out
  options follow the command: nsyswrap profile --force ./a.out
-o x nowhere.py
  options follow the command: nsyswrap profile -o x nowhere.py
-o x ./nowhere
  options follow the command: nsyswrap profile -o x ./nowhere
-o x -m pkg.train
  options follow the command: nsyswrap profile -o x -m pkg.train
-o x folder
  options follow the command: nsyswrap report -o x folder
./nowhere 3
  use nsyswrap profile ./nowhere 3
profile --nvcc -O3 -lcublas add.cu 2
  quote it: nsyswrap profile --nvcc '-O3 -lcublas' add.cu 2
profile --nvcc -O3 -std=c++17 -I inc -- add.cu
  quote it: nsyswrap profile --nvcc '-O3 -std=c++17 -I inc' -- add.cu
profile --nvcc=-O3 -lcublas add.cu 2
  quote it: nsyswrap profile --nvcc '-O3 -lcublas' add.cu 2
profile --nvcc=-lcublas -I inc -- add.cu
  quote it: nsyswrap profile --nvcc '-lcublas -I inc' -- add.cu
batch sweep -p n=1,2 --nvcc -O3 -lcublas add.cu {n}
  quote it: nsyswrap batch sweep -p n=1,2 --nvcc '-O3 -lcublas' add.cu '{n}'
profile -O3 add.cu 2
  use nsyswrap profile --nvcc -O3 add.cu 2
profile -o x -arch=sm_90 -lcublas add.cu 2
  use nsyswrap profile --nvcc '-arch=sm_90 -lcublas' -o x add.cu 2
profile -O3 train.py
  did you mean '-o'? nsyswrap profile --help-all shows all options
profile --arch 90 add.cu
  use --arch sm_90
profile --arch hopper add.cu
  use --arch sm_90
profile --capture-range step train.py
  for the NVTX range of this name: --capture-range nvtx:step
profile -o train.py --trace cuda
  put the value of -o before train.py
profile --nvcc add.cu
  put the value of --nvcc before add.cu
profile -m train.py 3
  without -m: nsyswrap profile train.py 3; --modules is another option
profile --module python3 train.py 3
  without -m: nsyswrap profile python3 train.py 3; --modules is another option
profile --module 2 train.py 3
  use nsyswrap profile --modules 2 train.py 3
profile --nvcc -O3 -q train.py
  nsyswrap profile --help-all shows all options
report x.sqlite -r cuda_gpu_kern_sum --kernel gemm
  use nsyswrap report x.sqlite -r cuda_gpu_kern_sum --match gemm
profile --gpu 1 train.py
  use nsyswrap profile --env CUDA_VISIBLE_DEVICES=1 train.py
profile --device=0,1 train.py
  use nsyswrap profile --env CUDA_VISIBLE_DEVICES=0,1 train.py
profile --device cuda:0 train.py
  use nsyswrap profile --env CUDA_VISIBLE_DEVICES=0 train.py
profile --gpus train.py
  omit --gpus for all GPUs, or use --env CUDA_VISIBLE_DEVICES=0 for one
batch sweep --gpu 0 -p n=1,2 -- python train.py
  did you mean '--gpus'? nsyswrap batch sweep --help-all shows all options
open x.sqlite
  use nsyswrap view x.sqlite
show x.sqlite
  use nsyswrap report x.sqlite
report x.sqlite --filter='*gemm*'
  use nsyswrap report x.sqlite '--match=*gemm*'
report x.sqlite --csv all.csv
  use nsyswrap report -r NAME -o all.csv for one file, or --csv all for a file of each report
report x.sqlite --match gemm
  use -r NAME, for example -r cuda_gpu_kern_sum
report x.sqlite -r kernels
  did you mean 'cuda_gpu_kern_sum'?
report x.sqlite -r cuda_gpu_kern_sum --sort mean
  did you mean 'avg_ns'?
runs 2
  use nsyswrap runs open 2
report x.sqlite --limit 3
  use nsyswrap report x.sqlite --top 3
report x.sqlite --grep gemm
  use nsyswrap report x.sqlite --match gemm
report x.sqlite cuda_gpu_kern_sum
  use nsyswrap report x.sqlite -r cuda_gpu_kern_sum
report x.sqlite cuda_gpu_kern_sum:base gpu_time
  use nsyswrap report x.sqlite -r cuda_gpu_kern_sum:base,gpu_time
report x.sqlite -o page.html
  nsyswrap view x.sqlite -o page.html writes one
report x.sqlite -o 'my table.xlsx'
  nsyswrap report x.sqlite -r NAME -o 'my table.csv' writes a table
plot x.sqlite -o p.gif
  nsyswrap plot x.sqlite --kind KIND -o p.png writes a picture
collect folder -o t.xlsx
  -o t writes a folder; t/results.csv has a row for each run
compare train.py add.cu
  use nsyswrap compare --run 5 -- train.py -- add.cu
compare --run 2 train.py --lr 3 -- train.py --lr 4
  use nsyswrap compare --run 2 -- train.py --lr 3 -- train.py --lr 4
compare --run 2 --trace cuda python3 train.py -- python3 train.py --lr 4
  use nsyswrap compare --run 2 --trace cuda -- python3 train.py -- python3 train.py --lr 4
redact x.sqlite y.sqlite
  the copy is named with -o: nsyswrap redact x.sqlite -o y.sqlite
redact x.sqlite x.sqlite.gz folder
  for several: for f in *.sqlite; do nsyswrap redact "$f" -o "redacted/$f"; done
redact x.sqlite folder --check
  --check takes a folder of captures
redact x.nsys-rep -o y.sqlite
  use nsyswrap redact x.sqlite -o y.sqlite
redact y.nsys-rep -o y.sqlite
  export it to .sqlite and redact that: nsys export --type=sqlite y.nsys-rep
compare x.sqlite x.sqlite -o cmp.html
  use --view cmp.html for it
compare x.sqlite x.sqlite -o 'my cmp.png'
  use --plot 'my cmp.png' for it
compare x.sqlite x.sqlite -o cmp.tsv
  name a file that ends in .txt, .csv, .json, .md
compare x.sqlite x.sqlite --view cmp.png
  name a file that ends in .html with --view, or use --plot for a picture
export x.sqlite --perfetto trace.html
  the timeline of Perfetto ends in .pftrace, .pftrace.gz or .json
export x.sqlite --flamegraph flame.svg
  name a .txt file: speedscope draws the folded stacks in it
export x.sqlite --metrics openmetrics -o m.html
  nsyswrap view x.sqlite -o m.html writes one
redact x.sqlite -o shared.html
  nsyswrap view x.sqlite -o shared.html writes one
baseline history folder -o history.csv
  name a file that ends in .html
profile -o run1.nsys-rep train.py
  use -o run1
profile -o 'my page.html' train.py
  use -o 'my page'
batch sweep -p n=1,2 -o sweep.csv train.py
  use -o sweep
scenarios run add2 -o add2.html
  use -o add2
scenarios run add2 --csv x.csv
  use --csv x for a file of each table
demo -o demo.html
  use -o demo
collect folder --sort busy_ns
  use nsyswrap collect folder --by busy_ns
profile --gpu-metric train.py
  did you mean '--gpu-metrics'? nsyswrap profile --help-all shows all options
profile --python-line train.py
  did you mean '--python-lines'? nsyswrap profile --help-all shows all options
profile --gpu-metrics all train.py --lr 3
  use nsyswrap profile --gpu-metrics train.py --lr 3
profile --gpu-metrics=all train.py --lr 3
  use nsyswrap profile --gpu-metrics train.py --lr 3
profile --gpu-metrics 0 -o x -- train.py 3
  use nsyswrap profile --nsys-arg=--gpu-metrics-devices=0 -o x -- train.py 3
profile --trace cuda --gpu-metrics none train.py 3
  use nsyswrap profile --trace cuda train.py 3
batch sweep -p n=1,2 --gpu-metrics all -- train.py {n}
  use nsyswrap batch sweep -p n=1,2 --gpu-metrics -- train.py '{n}'
profile --memory=true --modules 2 train.py 3
  use nsyswrap profile --memory --modules 2 train.py 3
profile --memory=false train.py
  use nsyswrap profile train.py
report x.sqlite --list=all
  use nsyswrap report x.sqlite --list
compare --nvcc '-O3 -lcublas' --arch sm_90 add.cu add.cu
  use nsyswrap compare --run 5 --nvcc '-O3 -lcublas' --arch sm_90 -- add.cu -- add.cu
compare --run 2 --nvcc -O3 -lcublas -- add.cu -- add.cu
  quote it: nsyswrap compare --run 2 --nvcc '-O3 -lcublas' -- add.cu -- add.cu
compare --run 2 --arch 90 -- add.cu -- add.cu
  use --arch sm_90
compare --arch sm_90 x.sqlite folder
  add --run N
compare x.sqlite x.sqlite --format html
  use --view FILE.html for a page
compare x.sqlite x.sqlite --format svg
  use --plot FILE.svg for a picture
report x.sqlite --format html
  nsyswrap view writes a page
report x.sqlite --format pdf
  nsyswrap plot draws pictures
view x.sqlite --format html -o x.html
  use nsyswrap view x.sqlite -o x.html
view --format=html x.sqlite
  use nsyswrap view x.sqlite
view x.sqlite -o x.pdf --format pdf
  use nsyswrap plot x.sqlite --format pdf
view --format csv x.sqlite
  use nsyswrap report x.sqlite --format csv
view x.sqlite --html x.html
  use nsyswrap view x.sqlite --output x.html
plot -o p --kind top-kernels x.sqlite --top 5
  as a table: nsyswrap report x.sqlite -r cuda_gpu_kern_sum --top 5
plot x.sqlite --top=5
  as a table: nsyswrap report x.sqlite -r cuda_gpu_kern_sum --top 5
plot x.sqlite -r timeline
  use nsyswrap plot x.sqlite --kind timeline
profile --steps train.py
  use nsyswrap profile --steps 10-13 train.py
profile --steps train.py --lr 3
  use nsyswrap profile --steps 10-13 train.py --lr 3
profile --steps --modules train.py
  use nsyswrap profile --steps 10-13 --modules train.py
profile -o x --steps add.cu
  use nsyswrap profile -o x --steps 10-13 add.cu
profile --python /opt/env/bin/python train.py 3
  use nsyswrap profile /opt/env/bin/python train.py 3
profile --python=/opt/env/bin/python --steps 10-13 -m pkg.train
  use nsyswrap profile --steps 10-13 /opt/env/bin/python -m pkg.train
profile -o x --python python3 -- train.py
  use nsyswrap profile -o x -- python3 train.py
batch sweep -p n=1,2 --python /opt/env/bin/python train.py {n}
  use nsyswrap batch sweep -p n=1,2 /opt/env/bin/python train.py '{n}'
profile --trace cuda,nvxt train.py
  did you mean 'nvtx'?
compare --run 2 --trace cuda,nvxt -- train.py -- train.py
  did you mean 'nvtx'?
profile --trace cuda,nccl train.py
  --trace cuda,nvtx records NCCL's kernels and ranges; for more use a newer nsys
"""
MISTAKES = """\
-V
  2 no option named '-V'
-v
  2 no option named '-v'
-?
  2 no option named '-?'
-help
  2 no option named '-help'
help
  2 no command named 'help'
help report
  2 no command named 'help'
version
  2 no command named 'version'
--hlep
  2 no option named '--hlep'
train.py
  2 no command named 'train.py'
train.py --lr 3
  2 no command named 'train.py'
./train.py
  2 no command named './train.py'
python3 train.py
  2 no command named 'python3'
add.cu
  2 no command named 'add.cu'
x.sqlite
  2 no command named 'x.sqlite'
run
  2 no command named 'run'
record train.py
  2 no command named 'record'
launch train.py
  2 no command named 'launch'
ncu ./a.out
  2 no command named 'ncu'
analyze x.sqlite
  2 no command named 'analyze'
ui x.sqlite
  2 no command named 'ui'
profile
  2 missing argument '[--] PROGRAM [ARGS]...'
profile nowhere.py
  127 nowhere.py not found
profile nowhere
  127 nowhere not found on PATH
profile ./nowhere
  127 ./nowhere not found
profile python3 trian.py
  127 trian.py not found
profile python3 -u folder.py 3
  127 folder.py not found
profile pyton train.py
  127 pyton not found on PATH
profile ./bin/python train.py
  127 ./bin/python not found
profile folder
  126 folder is a folder
profile folder/
  126 folder is a folder
profile main.cpp
  126 main.cpp is C or C++ source
profile ./main.cpp
  126 ./main.cpp is C or C++ source
profile book.ipynb
  126 book.ipynb is a notebook
profile train.py.gz
  126 train.py.gz is compressed
profile train.py.xz
  126 train.py.xz is compressed
profile all.zip
  126 all.zip is an archive
profile x.sqlite
  126 x.sqlite is a capture
profile plan.toml
  126 plan.toml is a file of settings
profile run.sh
  127 run.sh not found on PATH
profile ./run.sh
  126 ./run.sh is not executable
profile data.json
  127 data.json not found on PATH
profile -o train.py
  2 no program: -o took train.py for its value
profile CUDA_VISIBLE_DEVICES=0 python3 train.py
  127 CUDA_VISIBLE_DEVICES=0 not found on PATH
profile -m train.py
  2 -m takes the name of a module, and train.py is a file
profile -O3 add.cu
  2 -O3 is not an option of nsyswrap: --nvcc passes it to nvcc
profile --arch 90 add.cu
  2 invalid --arch '90': expected sm_NUMBER
profile --capture-range step train.py
  2 invalid --capture-range 'step': expected cudaProfilerApi or nvtx:NAME
profile -m
  2 missing argument '[--] PROGRAM [ARGS]...'
profile --capture-range nvtx train.py
  2 invalid --capture-range 'nvtx': the name of the range is missing
profile --capture-range nvtx: train.py
  2 invalid --capture-range 'nvtx:': the name of the range is missing
profile --steps 10:13 train.py
  2 invalid --steps '10:13': expected steps, for example 10-13
profile --steps 13-10 train.py
  2 invalid --steps '13-10': expected steps, for example 10-13
profile --steps train.py
  2 --steps needs the steps to record
profile --steps
  2 option '--steps' requires an argument
profile --python /opt/env/bin/python train.py
  2 no option named '--python': name the Python before its script
profile --gpu-metrics all train.py
  2 --gpu-metrics takes no value: it samples all GPUs that the program sees
profile --memory=true train.py
  2 --memory takes no value
compare --run 2 --nvcc -lcublas -- train.py -- train.py
  2 --nvcc needs a .cu file as PROGRAM, not train.py
compare --nvcc -lcublas x.sqlite folder
  2 --nvcc belongs to --run
view x.sqlite --format html
  2 no option named '--format': view writes HTML
plot x.sqlite --top 5
  2 no option named '--top': the number of kernels in a picture is fixed
profile --modules 0 train.py
  2 invalid --modules '0': expected a whole number from 1
profile --then-stop --timeout 5 missing.py
  2 --then-stop needs the steps to record
profile --share group --keep-environment missing.cu
  2 --share cannot be used with --keep-environment: others could read the environment
profile --step-at optimizer --steps 3 train.py
  2 invalid --step-at 'optimizer'
profile --steps 3 --delay 1 train.py
  2 --steps cannot be used with --delay: both say what to record
profile --timeout -1 train.py
  2 invalid --timeout '-1': expected a number above 0
profile --timeout ten train.py
  2 invalid --timeout 'ten': expected a number above 0
profile --repeat 2 -r gpu_time train.py
  2 --repeat cannot be used with --report or --csv: it shows the spread over all runs
profile --graphs nodes train.py
  2 invalid --graphs 'nodes': expected graph, node
profile --env A train.py
  2 invalid --env 'A': expected K=V, for example CUDA_VISIBLE_DEVICES=0
profile --share all train.py
  2 invalid --share 'all': expected group
profile --top 0 train.py
  2 invalid --top '0': expected a whole number from 1
profile --repotr gpu_time train.py
  2 no option named '--repotr'
profile --nsys /nowhere/nsys train.py
  69 --nsys names /nowhere/nsys, which is not an executable
profile --output
  2 option '--output' requires an argument
profile -r rank_skew train.py
  2 rank_skew compares ranks, and this is one program
profile 'train.py --epochs 3'
  127 train.py --epochs 3 not found
report nowhere.sqlite
  65 nowhere.sqlite not found
report empty.sqlite
  65 empty.sqlite is not complete: nsys is still writing it, or was interrupted
report zeros.sqlite
  65 zeros.sqlite is not complete: nsys is still writing it, or was interrupted
report x.sqlite.gz
  65 x.sqlite.gz is not a capture: it is compressed by gzip
report x.sqlite.xz
  65 x.sqlite.xz is not a capture: it is compressed by xz
report train.py
  65 train.py is not a capture: it is not an SQLite database
report notes.txt
  65 notes.txt is not a capture: it is not an SQLite database
report folder
  65 no capture in folder
report cut.sqlite
  65 cut.sqlite is cut off: 10,240 of 20,480 bytes
report x.sqlite -f csv
  2 no option named '-f'
report x.sqlite --top many
  2 invalid --top 'many': expected a whole number from 1
report x.sqlite --device gpu0
  2 invalid --device 'gpu0': expected a whole number
report x.sqlite --process 7
  65 x.sqlite: no process 7
report x.sqlite --time 2-3
  2 invalid --time '2-3': expected [START]/[END], for example 1s/2.5s, 10ms/ or /300us
report x.sqlite --time 9s/8s
  2 invalid --time '9s/8s': the end is before the start
report x.sqlite --by node
  2 invalid --by 'node': expected rank
report x.sqlite --timeunit hours
  2 invalid --timeunit 'hours': expected auto, ns, us, ms, s
report x.sqlite --ncu nothing
  2 no kernel named 'nothing'
report x.sqlite --csv all.csv
  2 --csv takes a folder, and all.csv is the name of a file
report x.sqlite --csv -
  2 --csv takes a folder, and - stands for stdout
profile --csv 'my all.csv' train.py
  2 --csv takes a folder, and my all.csv is the name of a file
report x.sqlite --format csv
  2 --format csv needs the name of a report
report x.sqlite -t cuda
  2 no option named '-t'
compare x.sqlite nowhere.sqlite
  65 nowhere.sqlite not found
export x.sqlite
  2 no output is named
export x.sqlite --perfetto
  2 option '--perfetto' requires an argument
export x.sqlite --metrics prometheus
  2 invalid --metrics 'prometheus': expected openmetrics, github-benchmark
collect nowhere
  65 nowhere not found
redact x.sqlite
  2 no output is named
baseline save
  2 missing argument 'NAME|FILE'
batch run nowhere.toml
  78 plan nowhere.toml not found
batch run train.py
  78 train.py is not valid TOML: Expected '=' after a key in a key/value pair (at line 1, column 6)
batch run plan.toml
  78 plan.toml: invalid runs = 3: expected a list with at least one table
batch sweep -p n train.py
  2 invalid -p 'n': expected NAME=V,V,..., for example n=1024,1048576
batch wait folder
  73 folder is not a batch folder: batch.json is missing
doctor nowhere.sqlite
  65 nowhere.sqlite not found
demo --vraiant
  2 no option named '--vraiant'
report x.sqlite -o train.py
  2 this command does not write .py files: train.py
view x.sqlite -o add.cu
  2 this command does not write .cu files: add.cu
report --ncu run
  2 --ncu takes a kernel, not run
report --ncu ./folder
  2 --ncu takes a kernel, not ./folder
runs --al
  2 no option named '--al'
doctor --peaks
  2 --peaks needs --probe
doctor --probe x.sqlite
  2 --probe cannot be used with a capture
compare --into d a b
  2 --into belongs to --run
report x.sqlite --steps 2-3 --nvtx step
  2 --steps cannot be used with --time or --nvtx
view x.sqlite --steps 2-3 --time 0ns/9ns
  2 --steps cannot be used with --time or --nvtx
"""


def pairs(table: str) -> list[tuple[str, str]]:
    """Return the command lines of a table with the lines below them."""
    lines = table.splitlines()
    return [(typed, answer.strip()) for typed, answer in zip(lines[::2], lines[1::2], strict=True)]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file of each kind."""
    folder = tmp_path_factory.mktemp("mistakes")
    write(folder / "x.sqlite", nvtx("step", 0, 40), call("cudaLaunchKernel", 0, 5, 1), kernel("k", 10, 30, 1))
    capture = (folder / "x.sqlite").read_bytes()
    (folder / "cut.sqlite").write_bytes(capture[: len(capture) // 2])
    (folder / "empty.sqlite").touch()
    (folder / "zeros.sqlite").write_bytes(bytes(4096))
    (folder / "train.py").write_text("print(1)\n")
    (folder / "plan.toml").write_text("runs = 3\n")
    for name in ("add.cu", "main.cpp", "book.ipynb", "all.zip", "run.sh", "data.json", "notes.txt"):
        (folder / name).write_text("no capture and no program\n")
    for name in ("x.sqlite", "train.py"):
        content = (folder / name).read_bytes()
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        (folder / f"{name}.xz").write_bytes(lzma.compress(content))
    (folder / "folder").mkdir()
    (folder / "run").mkdir()
    (folder / "run" / "report.sqlite").write_bytes(capture)
    return folder


def answer(warm_cli: WarmCli, folder: Path, typed: str) -> tuple[int, list[str]]:
    done = warm_cli.run(shlex.split(typed), folder, "", {}, PATIENCE_S)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) <= 2
    return done.returncode, [line.strip() for line in done.stderr.splitlines()]


@pytest.mark.parametrize(("typed", "expected"), pairs(MISTAKES), ids=lambda text: text.partition("\n")[0])
def test_a_mistake_has_an_answer(warm_cli: WarmCli, folder: Path, typed: str, expected: str) -> None:
    code, lines = answer(warm_cli, folder, typed)
    assert f"{code} {lines[0]}" == expected.replace(" ", " nsyswrap: ", 1)


@pytest.mark.parametrize(("typed", "advice"), pairs(OF_NSYS), ids=lambda text: text.partition("\n")[0])
def test_options_of_nsys_are_translated(warm_cli: WarmCli, folder: Path, typed: str, advice: str) -> None:
    """What is advised is a command line of nsyswrap."""
    code, lines = answer(warm_cli, folder, typed)
    assert (code, lines[1]) == (2, advice)
    if "nsyswrap profile" in advice:
        command, _, rest = advice.partition("nsyswrap ")[2].partition(" ")
        done = warm_cli.run(
            [command, "--dry-run", *shlex.split(rest)],
            folder,
            "",
            {"NSYSWRAP_NSYS": "/nowhere/nsys"},
            PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("typed", "advice"), pairs(OTHER_WORDS), ids=lambda text: text.partition("\n")[0])
def test_the_advice_keeps_what_was_typed(warm_cli: WarmCli, folder: Path, typed: str, advice: str) -> None:
    code, lines = answer(warm_cli, folder, typed)
    assert (code, lines[1]) == (2, advice)
    assert not (folder / "nsyswrap-runs").exists()


@pytest.mark.parametrize("typed", ["report x.sqlite", "compare x.sqlite x.sqlite"])
def test_json_is_a_format(warm_cli: WarmCli, folder: Path, typed: str) -> None:
    """doctor has --json. Who asks for JSON gets the error as JSON, too."""
    done = warm_cli.run([*typed.split(), "--json"], folder, "", {}, PATIENCE_S)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1] == f"  use nsyswrap {typed} --format=json"
    assert json.loads(done.stdout)["remedy"] == ["nsyswrap", *typed.split(), "--format=json"]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("trian.py", "did you mean 'train.py'?"),
        ("python3 trian.py --lr 3", "did you mean 'train.py'?"),
        ("./trian.py", "did you mean 'train.py'?"),
        ("train --lr 3", "did you mean 'train.py'?"),
        ("pythn3 train.py", "did you mean 'python3'?"),
        ("--modules pythn3 train.py", "did you mean 'python3'?"),
        ("CUDA_VISIBLE_DEVICES=0 python3 train.py", "use --env CUDA_VISIBLE_DEVICES=0 to set a variable"),
        ("--env A=1 B=2 train.py", "use --env B=2 to set a variable"),
        ("--modules ./env/python train.py", "the current folder is {folder}"),
        (
            "--gpu-metrics counters.csv train.py 3",
            "--gpu-metrics takes no value: nsyswrap profile --gpu-metrics train.py 3",
        ),
    ],
)
def test_a_mistyped_program_gets_the_nearest_name(
    warm_cli: WarmCli, folder: Path, typed: str, hint: str
) -> None:
    code, lines = answer(warm_cli, folder, f"profile {typed}")
    assert (code, lines[1]) == (127, hint.format(folder=folder))


@pytest.mark.parametrize("typed", ["-- nowhere train.py", "--modules 3 nowhere train.py"])
def test_an_option_with_its_value_is_not_why_a_program_is_not_found(
    warm_cli: WarmCli, folder: Path, typed: str
) -> None:
    assert answer(warm_cli, folder, f"profile {typed}") == (127, ["nsyswrap: nowhere not found on PATH"])


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("plot x.sqlite --kind timeline,copies", "repeat it: --kind timeline --kind copies"),
        ("plot x.sqlite --kind timeline,copy", "did you mean 'timeline'?"),
        ("profile --trace all train.py", "name what to trace, such as cuda,nvtx,osrt,cudnn,cublas"),
    ],
)
def test_values_of_several(warm_cli: WarmCli, folder: Path, typed: str, hint: str) -> None:
    code, lines = answer(warm_cli, folder, typed)
    assert (code, lines[1]) == (2, hint)


def test_a_file_without_rights(ordinary: RunIn, tmp_path: Path) -> None:
    for name in ("train.py", "x.sqlite"):
        (tmp_path / name).touch(mode=0)
    tmp_path.chmod(0o755)
    profiled, shown = ordinary(tmp_path, "profile", "train.py"), ordinary(tmp_path, "report", "x.sqlite")
    assert (profiled.returncode, shown.returncode) == (126, 65)
    assert profiled.stderr.splitlines()[0] == "nsyswrap: train.py cannot be read"
    assert shown.stderr.splitlines()[0] == "nsyswrap: x.sqlite cannot be read: Permission denied"


def test_a_mistake_is_answered_for_a_folder_without_rights(ordinary: RunIn, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    tmp_path.chmod(0o755)
    shown = ordinary(tmp_path, "view", "closed/x.sqlite", "--format", "csv")
    assert shown.returncode == 2
    assert shown.stderr.splitlines() == [
        "nsyswrap: no option named '--format': view writes HTML",
        "  use nsyswrap report closed/x.sqlite --format csv",
    ]


def test_the_table_is_long_enough() -> None:
    assert len(pairs(MISTAKES)) + len(pairs(OF_NSYS)) >= 100
