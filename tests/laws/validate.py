import json,sys,dataclasses,logging
sys.path.insert(0,'/work/main'); logging.disable(logging.CRITICAL)
from loopwarden.config import load_config
from loopwarden.events import *
from tests.laws.model import Model
from loopwarden.guard import LoopGuard
OFF={k:False for k in ['cycle','unknownToolChurn','repeatedFailure','failureStreak','stagnation']}
def ev(e):
    t=e['type']; r=e.get('run')
    if t=='call': return ToolCall(tool=e['tool'],arguments=e['args'],call_id=e['id'],run_id=r,turn_id=e.get('turn'),at=e.get('at'))
    if t=='outcome': return Outcome(call_id=e['id'],result=e.get('result'),error=e.get('error'),run_id=r)
    if t=='compaction': return Compaction(run_id=r,continues=e.get('continues'))
    if t=='user': return UserMessage(run_id=r)
    return Retraction(call_ids=tuple(e['ids']),run_id=r)
def cases(make):
    from loopwarden.scan.bounds import Answer, broken_bounds
    bad=0
    for l in open('/work/main/tests/data/cases.jsonl'):
        c=json.loads(l)
        try:
            m=make(load_config(c['config']).settings(None,c.get('mode','enforce')))
            ref=set(); ans=[]; n=0
            for e in c['events']:
                k=(e.get('run'),e.get('id'))
                if e['type']=='outcome' and k in ref and not e.get('always'): continue
                v=m.feed(ev(e))
                a=v.action if c.get('mode','enforce')=='enforce' else v.would or 'allow'
                if e['type']=='call':
                    n+=1
                    (ref.add if v.action in('block','abort') else ref.discard)(k)
                ans.append(Answer(calls=n,call=e['type']=='call',action=a,verdict=v))
            f=broken_bounds(c['expect'],ans)
        except NotImplementedError: f=['notimpl']
        if f: bad+=1; print(c['id'],c['title'],f)
    print('cases bad',bad)
def conf(make):
    bad=0
    for l in open('/work/main/tests/data/seed_detectors.jsonl'):
        c=json.loads(l); cfg=dict(c['config']); cfg['detectors']={**cfg.get('detectors',{}),**OFF}; cfg['resetOnWrite']=False
        m=make(load_config(cfg).settings(None,'observe')); got=[]
        for e in c['events']:
            v=m.feed(ev(e))
            if e['type']=='call': got.append([v.level,v.detector,v.count] if v.detector else None)
        if got!=c['expect']:
            bad+=1
            i=next(i for i,(a,b) in enumerate(zip(got,c['expect'])) if a!=b)
            if bad<8: print(c['id'],i,'got',got[i],'want',c['expect'][i], c['config'])
    print('conformance bad',bad)
if __name__=='__main__':
    make=Model if len(sys.argv)<2 else (lambda s: LoopGuard(s,on_error='raise'))
    conf(make); cases(make)
