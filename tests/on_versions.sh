#!/usr/bin/env bash
# The tests of towers/ and models/ on other TensorFlow versions, each in an environment of its own (.venv-VERSION).
#
#   tests/on_versions.sh 1.15 2.21        the two ends
#   tests/on_versions.sh                  all of them: 1.15 2.4 2.15 2.21
#
# MARKS='not long and not faults' leaves the long tests out. A version whose Python is not on this machine is skipped, and said to be. Exit code 1 if the tests of any fail.
set -uo pipefail
cd "$(dirname "$0")/.."

declare -A PYTHONS=([1.15]=3.7 [2.4]=3.8 [2.15]=3.11 [2.21]=3.13)
declare -A PACKAGES=(
    [1.15]="tensorflow==1.15.* protobuf<3.21 numpy<1.22 opencv-python-headless<4.9"
    [2.4]="tensorflow==2.4.* protobuf<3.21 numpy<1.20"
    [2.15]="tensorflow==2.15.* numpy<2"
    [2.21]="tensorflow==2.21.* tf-keras tf-slim"
)
TOOLS="absl-py pytest pytest-timeout pytest-xdist"

find_python() { # the path of a Python of that version that runs
    local candidate
    for candidate in "python$1" "$HOME"/.pyenv/versions/"$1".*/bin/"python$1" /usr/local/bin/"python$1"; do
        if "$candidate" -c 'import ensurepip' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

failed=() passed=() skipped=()
for version in "${@:-1.15 2.4 2.15 2.21}"; do
    for tensorflow in $version; do
        python=$(find_python "${PYTHONS[$tensorflow]}")
        if [ -z "$python" ]; then
            echo "TensorFlow $tensorflow: skipped, there is no Python ${PYTHONS[$tensorflow]} on this machine"
            skipped+=("$tensorflow")
            continue
        fi
        venv=.venv-$tensorflow
        if [ ! -e "$venv/installed" ]; then
            echo "TensorFlow $tensorflow: installing into $venv with $python"
            # shellcheck disable=SC2086
            "$python" -m venv "$venv" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -U pip \
                && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $TOOLS ${PACKAGES[$tensorflow]} \
                && touch "$venv/installed" || { failed+=("$tensorflow"); continue; }
        fi
        echo "TensorFlow $tensorflow: tests of towers/ and models/ on $("$venv/bin/python" --version)"
        if TF_CPP_MIN_LOG_LEVEL=3 "$venv/bin/python" -m pytest -q -n 2 --dist loadfile -m "${MARKS:-not faults}" \
                tests/towers tests/models; then
            passed+=("$tensorflow")
        else
            failed+=("$tensorflow")
        fi
    done
done

# A checkpoint written on any of them restores on every other.
exchange=$(mktemp -d)
for version in "${passed[@]}"; do
    ".venv-$version/bin/python" tests/checkpoint_exchange.py write "$exchange/$version" >/dev/null 2>&1 || failed+=("checkpoint-of-$version")
done
for reader in "${passed[@]}"; do
    for writer in "${passed[@]}"; do
        [ "$reader" = "$writer" ] && continue
        ".venv-$reader/bin/python" tests/checkpoint_exchange.py read "$exchange/$writer" 2>"$exchange/errors" \
            || { tail -5 "$exchange/errors"; failed+=("checkpoint-of-$writer-on-$reader"); }
    done
done
rm -rf "$exchange"
echo "TensorFlow versions: passed ${passed[*]:-none}; skipped ${skipped[*]:-none}; failed ${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
