#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example driver (examples/driver-led) on a folder that looks like /sys/class/leds; $DRIVER_LED replaces the one beside DRAY.
Usage: driver_led.py DRAY"""
import atexit, json, os, shutil, signal, subprocess, sys

sys.argv[1:] = sys.argv[1:] or ['build/dray']
from driver import Api, CLAIMS, DRAY, PEER, TOP, claim, published, until

LED, LEDS = 'led.example.com', os.path.join(TOP, 'leds')


def brightness(led):
    return int(open(os.path.join(LEDS, led, 'brightness')).read())


def call(*words, fails=False):
    run = subprocess.run([PEER, os.path.join(TOP, 'registry', f'{LED}-reg.sock'), *words], capture_output=True, text=True, timeout=60)
    assert (run.returncode != 0) == fails, (words, run.stdout, run.stderr)
    return json.loads(run.stdout)


def main():
    for i in range(3):
        os.makedirs(os.path.join(LEDS, f'led{i}'))
        for name, value in (('brightness', 0), ('max_brightness', 255)):
            with open(os.path.join(LEDS, f'led{i}', name), 'w') as f:
                f.write(f'{value}\n')
    api = Api()
    args = [os.environ.get('DRIVER_LED') or os.path.join(os.path.dirname(DRAY), 'driver-led'), '--node', 'n1', '--kubeconfig', api.kubeconfig, '--leds', LEDS]
    for flag in ('plugins', 'registry', 'cdi'):
        args += ['--' + flag, os.path.join(TOP, flag)]
    api.call('POST', '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n1'}})
    driver = subprocess.Popen(args)
    atexit.register(lambda: driver.poll() is None and driver.kill())
    try:
        assert [d['name'] for d in published(api, LED, 1)[0]['spec']['devices']] == ['led0', 'led1', 'led2']
        key, uid = claim(api, 'dim', LED, 'n1', ['led1'], {'apiVersion': LED + '/v1', 'kind': 'LedConfig', 'brightness': 40})
        answer = call('prepare', key)[uid]
        assert answer['devices'][0]['cdi'] == [f'{LED}/device={uid}-led1'] and brightness('led1') == 102, answer
        until('status', lambda: api.call('GET', f'{CLAIMS}/dim')['status'].get('devices'))
        bad, _ = claim(api, 'bad', LED, 'n1', ['led2'], {'apiVersion': LED + '/v1', 'kind': 'LedConfig', 'brightnes': 40})
        assert 'brightnes: unknown field' in str(call('prepare', bad, fails=True))
        assert brightness('led2') == 0
        call('unprepare', key)
        assert brightness('led1') == 0 and not [n for n in os.listdir(os.path.join(TOP, 'cdi')) if n.endswith('.json')]
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(timeout=30) == 0
    finally:
        api.process.terminate()
        api.process.wait()
        api.process.stdout.close()
    shutil.rmtree(TOP, ignore_errors=True)
    lines = sum(1 for _ in open(os.path.join(os.path.dirname(__file__), '..', '..', 'examples', 'driver-led', 'led.c')))
    assert lines <= 150, lines
    print(f'driver-led: {lines} lines, publishes, lights and switches off')


if __name__ == '__main__':
    main()
