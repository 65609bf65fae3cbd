import os,subprocess,sys,time,pytest
from django.db import connection
pytestmark=pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind",["broker","backend","both"])
def test_t(kind,settings,broker):
    from tests.factories import make_attempt,make_retrieval
    rs=[make_retrieval().run for _ in range(20)]
    d=settings.DATABASES["default"]
    env=os.environ|{"DATABASE_URL":f"postgresql://{d['USER']}@/{connection.settings_dict['NAME']}?host={d['HOST']}&port={d['PORT']}"}
    if kind in("broker","both"): env["CELERY_BROKER_URL"]="redis://127.0.0.1:1/0"
    if kind in("backend","both"): env["CELERY_RESULT_BACKEND"]="redis://127.0.0.1:1/1"
    s="""
import django,time; django.setup()
from contextgraph import pipeline
for i in range(2):
    t=time.time(); r=pipeline.reap(impatient=True); print('sweep %.1f s'%(time.time()-t), len(r.dispatched),len(r.resent),r.errors)
"""
    o=subprocess.run([sys.executable,"-c",s],env=env,capture_output=True,text=True)
    print(kind,o.stdout,o.stderr[-300:])
