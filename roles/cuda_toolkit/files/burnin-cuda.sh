# Written by burnin (role cuda_toolkit): the default toolkit for login shells. /usr/local/cuda is an alternative, so no version stands here.
if [ -d /usr/local/cuda/bin ]; then
    CUDA_HOME=/usr/local/cuda
    case ":${PATH}:" in *:/usr/local/cuda/bin:*) ;; *) PATH=/usr/local/cuda/bin${PATH:+:${PATH}} ;; esac
    # lib64, where the toolkit has its libraries: it has no lib
    case ":${LD_LIBRARY_PATH:-}:" in *:/usr/local/cuda/lib64:*) ;; *) LD_LIBRARY_PATH=/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}} ;; esac
    export CUDA_HOME PATH LD_LIBRARY_PATH
fi
